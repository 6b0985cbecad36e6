"""A worker for `leasehold manager`: it works on the cameras that its manager gives it, and stops in time."""
