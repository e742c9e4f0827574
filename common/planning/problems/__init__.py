"""Plans of problems: how many people each guarantee takes. One class a file, registered under the problem's name."""
