"""The issuer: vouches for people, by credentials that it signs blindly, and for hosts, by grants."""
