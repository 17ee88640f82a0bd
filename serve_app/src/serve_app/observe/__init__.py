"""What can be seen of the service from outside: metrics."""
