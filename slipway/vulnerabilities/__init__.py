"""Known vulnerabilities of what an image is made of, by scanners' reports; a gate with an allow-list that expires."""
