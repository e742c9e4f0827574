"""A party's database: opened, migrated, copied; and whether there is room for what it will hold."""
