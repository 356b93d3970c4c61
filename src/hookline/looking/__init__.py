"""Look at what flows through a model: tables, pictures, reports."""
