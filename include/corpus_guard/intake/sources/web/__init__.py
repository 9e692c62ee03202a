"""Pages of the web as a source: listed one by one, in a sitemap or in a feed."""
