"""JSON schema with a budget: every step counted, every pattern timed, nothing fetched."""
