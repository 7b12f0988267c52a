//! What moves when a value goes from one layout to another: derived from the two index maps alone.
//!
//! * [`fetches`]: what one device takes, from whom, in which order. Executors and the verifier use it.
//! * [`Traffic`]: the pattern, the group and the bytes of the whole move. Planning and `explain` use it.
//!
//! **Who sends.** Each element that a device needs has one sender: among the devices that hold it, the
//! one that agrees with the receiver along every axis the source does not use. So a device that holds
//! an element never asks another for it, and replicas share the work. A receiver outside the source's
//! mesh counts as the source's place `p mod n`, where `p` is its place in its own mesh.
//!
//! **What is combined.** Axes partial in the source and not in the target are reduced: an element is
//! fetched from every coordinate along them, in mesh order, so the order of the sum is the same on
//! every device and in every run. Between different meshes all partial axes are reduced.
//!
//! **What is not covered.** Axes partial in the target only: the value sits at their coordinate 0, or, if
//! they cut the source, every device keeps what it holds; elsewhere the target is filled with the
//! operator's identity ([`identity_of`]).

mod across;
mod exchange;
mod joined;
mod meetings;
mod one_grid;
mod parts;
mod traffic;

pub use exchange::Exchange;
pub use traffic::Traffic;

use crate::dtype::Combine;
use crate::instr::TensorType;
use crate::layout::{Layout, Overlap, Partial};
use crate::mesh::DeviceId;
use parts::Parts;

/// Elements that one device takes from one piece (of its own or another device) in a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Whose piece of the source.
    pub from: DeviceId,
    /// 0 overwrites the target's elements; every later part is combined with what is there, so the
    /// order of the list is the order of the reduction. A step that brings one part of several begins with
    /// a later one.
    pub part: u64,
    /// For each dim the runs that the source piece (`at_first`) and the target piece (`at_second`)
    /// share: the elements are their product.
    pub runs: Vec<Vec<Overlap>>,
}

impl Fetch {
    /// How many elements.
    pub fn elements(&self) -> u64 {
        self.runs.iter().map(|runs| runs.iter().map(|run| run.len).sum()).fold(1, u64::saturating_mul)
    }
}

/// What `device` fetches in a move from `source` to `target` at a step, in this order. Fetches that
/// would take nothing are left out; nothing at all if the device is not in the target's mesh.
///
/// Who asks for many devices makes an [`Exchange`] and asks it.
pub fn fetches(source: &TensorType, target: &TensorType, device: DeviceId, steps: &[u64]) -> Vec<Fetch> {
    Exchange::new(source, target, steps).fetches(device)
}

/// The operator whose identity fills a device's target before anything is fetched: where an axis is
/// partial in the target only, the device holds what nothing is put into.
pub fn identity_of(source: &TensorType, target: &TensorType, device: DeviceId) -> Option<Combine> {
    let place = target.layout.mesh().place_of(device)?;
    Parts::new(&source.layout, &target.layout).identity(&target.layout.mesh().coords(place))
}

/// The axes that a move combines: partial in the source and not in the target, or to be combined before
/// one that is.
pub fn reduced_axes(source: &Layout, target: &Layout) -> Vec<Partial> {
    Parts::new(source, target).reduced
}
