"""Where artifacts come from: what pip and apt are configured with on this machine, folders, snapshots, and how servers
are reached (proxies, certificate authorities, retries). No registry's host stands here: pip and apt are asked."""
