"""Two nodes that run the image, and how tests reach them."""
