"""What the project is made with, and no part of the program that is installed."""
