//! How much memory a device needs at most.
//!
//! Devices whose pieces all have the same sizes need the same memory, so they are sorted into classes:
//! one pass over the devices for each different way in which some dim is cut. What is alive is then
//! summed for each class, action by action.

use super::lives::lives;
use crate::host::{BufferId, HostInstr, HostProgram};
use crate::id::{Id, Table};
use crate::instr::TensorType;
use crate::layout::{DimCuts, Factor, StepId};
use crate::mesh::Mesh;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of arguments, weights, results and temporaries that are alive at once, the most of one device.
/// Pieces count with their own sizes, not with the places that are set aside for them.
///
/// Inside a loop the sizes of the steps differ in the last step only, as far as a counter is the first
/// to cut its dim; the first and the last step are looked at.
pub fn peak_bytes(program: &HostProgram) -> u64 {
    let mut counters = BTreeMap::new();
    collect_counters(&program.body, &mut counters);
    let sizes = PieceSizes::new(program, &counters);
    let mut changes: Vec<(usize, Change, BufferId)> = Vec::new();
    let has_bytes = |id: BufferId| program.buffers[id].view.is_none();
    for (id, life) in lives(program).iter().filter(|(id, _)| has_bytes(*id)) {
        changes.extend([(life.start, Change::Begins, id), (life.end, Change::Ends, id)]);
    }
    changes.sort_unstable();
    (0..sizes.classes).map(|class| peak_of(program, &sizes, &changes, class)).max().unwrap_or(0)
}

/// The number of steps of every counter (the most, if loops share it).
fn collect_counters(body: &[HostInstr], counters: &mut BTreeMap<StepId, u64>) {
    for instr in body {
        if let HostInstr::Loop(steps) = instr {
            for &(id, count) in &steps.counters {
                let most = counters.entry(id).or_insert(count);
                *most = count.max(*most);
            }
            steps.stages.iter().for_each(|body| collect_counters(body, counters));
        }
    }
}

/// What becomes of a buffer at an action of the text. An end comes before a beginning at the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Ends,
    Begins,
}

/// The most bytes of one class of devices.
fn peak_of(
    program: &HostProgram,
    sizes: &PieceSizes,
    changes: &[(usize, Change, BufferId)],
    class: usize,
) -> u64 {
    let (mut now, mut peak) = (0_u64, 0);
    for &(_, change, id) in changes {
        let bytes = sizes.bytes[id][class].saturating_mul(program.buffers[id].slots);
        match change {
            Change::Begins => now = now.saturating_add(bytes),
            Change::Ends => now = now.saturating_sub(bytes),
        }
        peak = peak.max(now);
    }
    peak
}

/// The bytes of every buffer's largest piece, for every class of devices.
struct PieceSizes {
    classes: usize,
    /// `[buffer][class]`
    bytes: Table<BufferId, Vec<u64>>,
}

impl PieceSizes {
    fn new(program: &HostProgram, counters: &BTreeMap<StepId, u64>) -> PieceSizes {
        let devices = usize::try_from(program.devices).unwrap_or(0);
        let mut cuts: Vec<Cut<'_>> = Vec::new();
        let cuts_of: Vec<Vec<usize>> = program
            .buffers
            .values()
            .map(|buffer| {
                let own = Cut::all_of(&buffer.ty);
                own.map(|cut| {
                    cuts.iter().position(|known| *known == cut).unwrap_or_else(|| {
                        cuts.push(cut);
                        cuts.len() - 1
                    })
                })
                .collect()
            })
            .collect();
        let counts: Vec<Vec<u64>> = cuts.iter().map(|cut| cut.counts(devices, counters)).collect();
        let members = one_of_each_class(devices, &counts);
        let bytes = program.buffers.values().zip(&cuts_of).map(|(buffer, cuts)| {
            let of_device = |&device: &usize| {
                let elements = cuts.iter().fold(1, |n: u64, &cut| n.saturating_mul(counts[cut][device]));
                elements.saturating_mul(buffer.ty.dtype.size())
            };
            members.iter().map(of_device).collect()
        });
        PieceSizes { classes: members.len(), bytes: bytes.collect() }
    }
}

/// The first device of each class of devices that hold as many indices of every cut.
fn one_of_each_class(devices: usize, counts: &[Vec<u64>]) -> Vec<usize> {
    let mut class_of = vec![0_usize; devices];
    for counts in counts {
        let mut classes: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        for (class, &count) in class_of.iter_mut().zip(counts) {
            let next = classes.len();
            *class = *classes.entry((*class, count)).or_insert(next);
        }
    }
    let mut first: BTreeMap<usize, usize> = BTreeMap::new();
    for (device, class) in class_of.into_iter().enumerate() {
        first.entry(class).or_insert(device);
    }
    first.into_values().collect()
}

/// One way in which a dim is cut: all that decides how many indices a device holds.
#[derive(PartialEq)]
struct Cut<'a> {
    mesh: &'a Arc<Mesh>,
    factors: &'a [Factor],
    size: u64,
}

impl<'a> Cut<'a> {
    /// The cuts of a value's dims; those of a scalar say which devices hold it.
    fn all_of(ty: &'a TensorType) -> impl Iterator<Item = Cut<'a>> {
        let mesh = ty.layout.mesh();
        let scalar = ty.dims.is_empty().then_some(Cut { mesh, factors: &[], size: 1 });
        let dims = ty.layout.cuts().iter().zip(&ty.dims);
        dims.map(move |(factors, &(_, size))| Cut { mesh, factors, size }).chain(scalar)
    }

    /// For each device of the run how many indices it holds, the most of any step; 0 outside the mesh.
    fn counts(&self, devices: usize, counters: &BTreeMap<StepId, u64>) -> Vec<u64> {
        let mut counts = vec![0; devices];
        let factors = self.factors.to_vec();
        for steps in self.steps(counters) {
            let pieces = DimCuts::of(&factors, self.mesh, self.size, &steps);
            for place in 0..self.mesh.device_count() {
                let held = pieces.at(&self.mesh.coords(place)).count();
                if let Some(count) = counts.get_mut(self.mesh.device_at(place).index()) {
                    *count = held.max(*count);
                }
            }
        }
        counts
    }

    /// The first and the last step of every counter that the factors follow, in all combinations.
    fn steps(&self, counters: &BTreeMap<StepId, u64>) -> Vec<Vec<u64>> {
        let used: Vec<StepId> = self.factors.iter().filter_map(Factor::step).collect();
        let length = used.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        let mut all = vec![vec![0; length]];
        for id in used {
            let last = counters.get(&id).map_or(0, |steps| steps.saturating_sub(1));
            let with = |step: u64| {
                all.iter().map(move |steps| {
                    let mut steps = steps.clone();
                    steps[id.index()] = step;
                    steps
                })
            };
            all = with(0).chain(with(last)).collect();
        }
        all
    }
}
