"""What can be known of an image before anything is made: its lock's files are read where they lie in the store."""
