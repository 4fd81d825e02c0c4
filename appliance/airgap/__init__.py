"""An air-gap bundle: a folder with everything that a site downloads, each file with its digest."""
