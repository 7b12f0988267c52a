//! Which buffers can be on one device.

use super::{Buffer, BufferId};
use crate::id::{Id, Table};
use crate::mesh::{DeviceId, Mesh};
use std::sync::Arc;

/// For every two buffers, whether their meshes have a device in common.
pub struct MeshPairs {
    mesh_of: Vec<usize>,
    meet: Vec<Vec<bool>>,
}

impl MeshPairs {
    /// Compares the different meshes of the buffers.
    pub fn new(buffers: &Table<BufferId, Buffer>) -> MeshPairs {
        let mut meshes: Vec<&Arc<Mesh>> = Vec::new();
        let mesh_of = buffers.values().map(|buffer| {
            let mesh = buffer.ty.layout.mesh();
            meshes.iter().position(|known| *known == mesh).unwrap_or_else(|| {
                meshes.push(mesh);
                meshes.len() - 1
            })
        });
        let mesh_of = mesh_of.collect();
        let devices: Vec<Vec<DeviceId>> = meshes.iter().map(|mesh| mesh.sorted_devices()).collect();
        let meet =
            |a: &Vec<DeviceId>, b: &Vec<DeviceId>| a.iter().any(|device| b.binary_search(device).is_ok());
        let meet = devices.iter().map(|a| devices.iter().map(|b| meet(a, b)).collect()).collect();
        MeshPairs { mesh_of, meet }
    }

    /// Whether some device can hold both buffers.
    pub fn meet(&self, a: BufferId, b: BufferId) -> bool {
        self.meet[self.mesh_of[a.index()]][self.mesh_of[b.index()]]
    }
}
