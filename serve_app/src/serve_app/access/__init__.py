"""Who may ask, how much, and what is turned away before anything is computed. Nothing here imports Ray."""
