"""What a person reads in a browser: one page of all results that loads nothing from anywhere, and a live one."""
