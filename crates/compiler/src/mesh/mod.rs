//! A mesh: devices in a grid with a name for each direction.
//!
//! ```text
//! mesh grid { dp = 2, tp = 4 }          coordinates (dp, tp), the last axis varies fastest:
//!
//!         tp=0 tp=1 tp=2 tp=3
//!  dp=0     0    1    2    3
//!  dp=1     4    5    6    7            device = 4 dp + tp
//! ```

mod parse;
mod print;

pub(crate) use parse::read_mesh;

use crate::diagnostic::quote;
use crate::id::{Id, Table, id};
use std::fmt;
use std::sync::Arc;

id! {
    /// An axis of a mesh: its place in the mesh's list of axes.
    AxisId "axis"
    /// A device: its number in the run, not its place in a mesh.
    DeviceId "device"
}

impl From<u32> for DeviceId {
    fn from(number: u32) -> DeviceId {
        DeviceId(number)
    }
}

/// A named direction of a mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// Unique in its mesh.
    pub name: String,
    /// At least 1.
    pub size: u64,
}

/// Devices in a grid. Immutable and cheap to share.
///
/// Invariants: axis names are unique, sizes at least 1, the product of the sizes is at most
/// [`Mesh::MOST_DEVICES`]; listed devices are as many as that product, and distinct.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mesh {
    name: String,
    axes: Table<AxisId, Axis>,
    devices: Option<Listed>,
}

/// The devices that the user listed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Listed {
    by_place: Vec<DeviceId>,
    /// Sorted: each device with its place.
    places: Vec<(DeviceId, u64)>,
}

/// Why a mesh cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MeshError {
    /// An axis of size 0.
    EmptyAxis(String),
    /// Two axes of one name.
    AxisTwice(String),
    /// More devices than [`Mesh::MOST_DEVICES`], or a device number beyond it.
    TooManyDevices,
    /// More axes than [`Mesh::MOST_AXES`].
    TooManyAxes,
    /// The list of devices is not as long as the mesh has places.
    DeviceCount {
        /// How many places there are.
        places: u64,
        /// How many devices were listed.
        listed: usize,
    },
    /// A device stands twice in the list.
    DeviceTwice(u64),
}

impl Mesh {
    /// Meshes larger than this are refused: planning walks over the devices.
    pub const MOST_DEVICES: u64 = 1 << 16;

    /// Meshes with more axes are refused.
    pub const MOST_AXES: usize = 64;

    /// A mesh of the given axes; the devices are `0, 1, ...` unless listed.
    pub fn new(
        name: impl Into<String>,
        axes: impl IntoIterator<Item = (String, u64)>,
        devices: Option<Vec<u64>>,
    ) -> Result<Mesh, MeshError> {
        let mut table: Table<AxisId, Axis> = Table::new();
        let mut places: u64 = 1;
        for (name, size) in axes {
            if table.len() == Self::MOST_AXES {
                return Err(MeshError::TooManyAxes);
            }
            if size == 0 {
                return Err(MeshError::EmptyAxis(name));
            }
            if table.values().any(|a| a.name == name) {
                return Err(MeshError::AxisTwice(name));
            }
            places = places
                .checked_mul(size)
                .filter(|&p| p <= Self::MOST_DEVICES)
                .ok_or(MeshError::TooManyDevices)?;
            table.push(Axis { name, size });
        }
        let devices = devices.map(|ids| Self::listed(places, &ids)).transpose()?;
        Ok(Mesh { name: name.into(), axes: table, devices })
    }

    fn listed(places: u64, ids: &[u64]) -> Result<Listed, MeshError> {
        if ids.len() as u64 != places {
            return Err(MeshError::DeviceCount { places, listed: ids.len() });
        }
        if ids.iter().any(|&id| id >= Self::MOST_DEVICES) {
            return Err(MeshError::TooManyDevices);
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MeshError::DeviceTwice(pair[0]));
        }
        let by_place: Vec<DeviceId> = ids.iter().map(|&id| DeviceId::new(id as usize)).collect();
        let mut places: Vec<(DeviceId, u64)> = by_place.iter().copied().zip(0..).collect();
        places.sort_unstable();
        Ok(Listed { by_place, places })
    }

    /// The mesh of a program that has no placement: one device, no axis.
    pub fn single() -> Arc<Mesh> {
        Arc::new(Mesh { name: "one".into(), axes: Table::new(), devices: None })
    }

    /// The mesh's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The axes, outermost first.
    pub fn axes(&self) -> &Table<AxisId, Axis> {
        &self.axes
    }

    /// The axis of that name.
    pub fn axis(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().find(|(_, a)| a.name == name).map(|(id, _)| id)
    }

    /// The size of an axis.
    pub fn size(&self, axis: AxisId) -> u64 {
        self.axes[axis].size
    }

    /// How many devices the mesh has.
    pub fn device_count(&self) -> u64 {
        self.axes.values().map(|a| a.size).product()
    }

    /// Whether the devices were listed by the user.
    pub fn listed_devices(&self) -> Option<&[DeviceId]> {
        self.devices.as_ref().map(|listed| &listed.by_place[..])
    }

    /// The device at a place, places being counted row-major over the axes.
    pub fn device_at(&self, place: u64) -> DeviceId {
        match &self.devices {
            Some(listed) => listed.by_place[place as usize],
            None => DeviceId::new(place as usize),
        }
    }

    /// The devices, place by place.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        (0..self.device_count()).map(|place| self.device_at(place))
    }

    /// The place of a device, if the device is in the mesh.
    pub fn place_of(&self, device: DeviceId) -> Option<u64> {
        match &self.devices {
            Some(Listed { places, .. }) => {
                let at = places.binary_search_by_key(&device, |&(device, _)| device).ok()?;
                Some(places[at].1)
            }
            None => (device.index() < self.device_count() as usize).then_some(device.index() as u64),
        }
    }

    /// One past the largest device number: how many devices a run needs for this mesh.
    pub fn device_bound(&self) -> u64 {
        match &self.devices {
            Some(Listed { places, .. }) => places.last().map_or(0, |(device, _)| device.index() as u64 + 1),
            None => self.device_count(),
        }
    }

    /// The coordinates of a place, one per axis.
    pub fn coords(&self, place: u64) -> Coords {
        let mut coords = vec![0; self.axes.len()];
        let mut rest = place;
        for (axis, coord) in self.axes.values().zip(&mut coords).rev() {
            *coord = rest % axis.size;
            rest /= axis.size;
        }
        Coords(coords)
    }

    /// The place of given coordinates.
    pub fn place(&self, coords: &Coords) -> u64 {
        self.axes.values().zip(&coords.0).fold(0, |place, (axis, &coord)| place * axis.size + coord)
    }

    /// All coordinates along the given axes, the last one fastest; 0 along every other axis.
    pub fn coords_over<'a>(&'a self, axes: &'a [AxisId]) -> impl Iterator<Item = Coords> + 'a {
        let combinations: u64 = axes.iter().map(|&axis| self.size(axis)).product();
        (0..combinations).map(move |index| {
            let mut coords = self.coords(0);
            let mut rest = index;
            for &axis in axes.iter().rev() {
                coords.set(axis, rest % self.size(axis));
                rest /= self.size(axis);
            }
            coords
        })
    }

    /// The same mesh with one axis of another size, as `--mesh m.axis=n` asks for.
    /// `None` if it has no such axis; an error also if the mesh lists its devices.
    pub fn resized(&self, axis: &str, size: u64) -> Option<Result<Mesh, MeshError>> {
        let id = self.axis(axis)?;
        let axes = self.axes.iter().map(|(a, old)| (old.name.clone(), if a == id { size } else { old.size }));
        let devices = self.listed_devices().map(|ids| ids.iter().map(|d| d.index() as u64).collect());
        Some(Mesh::new(self.name.clone(), axes, devices))
    }

    /// Whether both meshes have the same devices, in whatever grid.
    pub fn same_devices(&self, other: &Mesh) -> bool {
        self.same_grid(other)
            || self.device_count() == other.device_count() && self.sorted_devices() == other.sorted_devices()
    }

    /// The devices in the order of their numbers.
    pub fn sorted_devices(&self) -> Vec<DeviceId> {
        let mut devices: Vec<DeviceId> = self.devices().collect();
        devices.sort_unstable();
        devices
    }

    /// Whether both meshes have the same devices in the same grid, whatever their names.
    pub fn same_grid(&self, other: &Mesh) -> bool {
        let same_devices = || match (&self.devices, &other.devices) {
            (None, None) => true, // both 0, 1, ... and as many as the axes say
            _ => self.devices().eq(other.devices()),
        };
        std::ptr::eq(self, other) || self.axes == other.axes && same_devices()
    }
}

/// Where a device stands in a mesh: one coordinate per axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coords(Vec<u64>);

impl Coords {
    /// The coordinate along an axis.
    pub fn along(&self, axis: AxisId) -> u64 {
        self.0[axis.index()]
    }

    /// Moves along an axis.
    pub fn set(&mut self, axis: AxisId, coord: u64) {
        self.0[axis.index()] = coord;
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshError::EmptyAxis(axis) => write!(f, "axis {} has size 0", quote(axis)),
            MeshError::AxisTwice(axis) => write!(f, "axis {} stands twice", quote(axis)),
            MeshError::TooManyDevices => {
                write!(
                    f,
                    "there are more than {} devices, or a device has a number beyond that",
                    Mesh::MOST_DEVICES
                )
            }
            MeshError::TooManyAxes => write!(f, "there are more than {} axes", Mesh::MOST_AXES),
            MeshError::DeviceCount { places, listed } => {
                write!(f, "the axes make {places} places, but {listed} devices are listed")
            }
            MeshError::DeviceTwice(id) => write!(f, "device {id} stands twice"),
        }
    }
}

impl std::error::Error for MeshError {}
