"""The wire: OpenAI's error object, streams that end properly, and requests that are refused before a GPU is touched."""
