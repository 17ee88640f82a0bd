"""What proves an image: bills of materials, provenance, signatures. All of it is made from the lock."""
