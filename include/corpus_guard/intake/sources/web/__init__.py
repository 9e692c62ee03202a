"""Pages of the web as a source: a list, a sitemap or a feed says which."""
