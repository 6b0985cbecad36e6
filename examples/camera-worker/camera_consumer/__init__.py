"""Takes the events of camera workers: each once, and none of a worker that does not own its camera any more."""
