//! Tensor programs on meshes of devices.
