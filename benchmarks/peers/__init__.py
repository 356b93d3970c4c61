"""The same capture with other packages: what each costs, whether what it hands out is true."""
