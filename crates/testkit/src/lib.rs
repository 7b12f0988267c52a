//! How Shardweave is tested.
