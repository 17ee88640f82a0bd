"""The store: downloaded artifacts by content, `<root>/sha256/ab/<hex>`. Nothing enters it unverified."""

from slipway.store.store import Store

__all__ = ["Store"]
