"""One inspection of tables: Table 1 by site, and findings that are refused or said."""
