//! Which buffers can be on one device.

use super::{Buffer, BufferId};
use crate::id::{Id, Table, id};
use crate::mesh::{DeviceId, Mesh};
use std::sync::Arc;

id! {
    /// One of the different meshes of a program's buffers.
    MeshId "mesh"
}

/// For every two buffers, whether their meshes have a device in common.
pub struct MeshPairs {
    mesh_of: Table<BufferId, MeshId>,
    /// For each mesh those that have a device in common with it, itself among them.
    meeting: Table<MeshId, Vec<MeshId>>,
}

impl MeshPairs {
    /// Compares the different meshes of the buffers.
    pub fn new(buffers: &Table<BufferId, Buffer>) -> MeshPairs {
        let mut meshes: Vec<&Arc<Mesh>> = Vec::new();
        let mesh_of = buffers.values().map(|buffer| {
            let mesh = buffer.ty.layout.mesh();
            MeshId::new(meshes.iter().position(|known| *known == mesh).unwrap_or_else(|| {
                meshes.push(mesh);
                meshes.len() - 1
            }))
        });
        let mesh_of = mesh_of.collect();
        let devices: Table<MeshId, Vec<DeviceId>> = meshes.iter().map(|mesh| mesh.sorted_devices()).collect();
        let meet =
            |a: &Vec<DeviceId>, b: &Vec<DeviceId>| a.iter().any(|device| b.binary_search(device).is_ok());
        let meeting = devices
            .values()
            .map(|a| devices.iter().filter(|(_, b)| meet(a, b)).map(|(mesh, _)| mesh).collect());
        MeshPairs { mesh_of, meeting: meeting.collect() }
    }

    /// The different meshes.
    pub fn meshes(&self) -> impl Iterator<Item = MeshId> {
        self.meeting.keys()
    }

    /// The mesh that a buffer lives on.
    pub fn mesh_of(&self, buffer: BufferId) -> MeshId {
        self.mesh_of[buffer]
    }

    /// The meshes that have a device in common with a buffer's, its own among them.
    pub fn meeting(&self, buffer: BufferId) -> &[MeshId] {
        &self.meeting[self.mesh_of[buffer]]
    }
}
