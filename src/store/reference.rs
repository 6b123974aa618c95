//! The store as the reference means it. For the conformance tests alone; nothing in the pool uses it.
