"""How many replicas each role needs: what a replica reports, and the rules over it."""
