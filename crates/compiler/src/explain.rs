//! The report of a plan: read off the placement and what it was lowered to, so it cannot say anything else
//! than what runs.

use crate::cost::Cost;
use crate::estimate;
use crate::host::HostProgram;
use crate::id::Id;
use crate::instr::{Compute, MOST_PIPELINED, Move, Path, TensorType};
use crate::layout::{DimCuts, StepId};
use crate::local::{LocalId, LocalInstr, LocalProgram};
use crate::lower::{Apart, Lowered};
use crate::op::{is_any_part_dim, product_flops};
use crate::placement::{Overlap, Placement};
use crate::program::{Program, Sizes};
use crate::propagate::{Placed, typed};
use crate::report::{CollectiveReport, Report, Subject, ValueReport};
use crate::schedule::peak_bytes;
use crate::transfer::Traffic;

/// Explains a plan.
pub fn run(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    placed: &Placed,
    lowered: &Lowered,
    host: &HostProgram,
    cost: &Cost,
) -> Report {
    let walk = Walk::over(&lowered.local);
    let axes = placed.home.axes().values();
    let home = placement.map(|_| placed.home.name());
    Report {
        program: program.name.clone(),
        placement: placement.map(|placement| placement.name.clone()),
        mesh: placement
            .map(|_| axes.map(|axis| (axis.name.clone(), axis.size)).collect())
            .unwrap_or_default(),
        devices: host.devices,
        values: values(program, sizes, placed, home.unwrap_or(placed.home.name())),
        collectives: walk.collectives,
        flops_per_device: walk.flops.most(),
        peak_bytes_per_device: peak_bytes(host),
        time_us: estimate::time_us(host, cost),
        alternatives: placed.alternatives.clone(),
        notes: placed.notes.iter().cloned().chain(apart(program, placed, lowered)).collect(),
    }
}

/// The bytes that all collectives of a plan send, of all devices.
pub fn bytes_total(local: &LocalProgram) -> u64 {
    let collectives = Walk::over(local).collectives;
    collectives.iter().fold(0, |bytes, collective| bytes.saturating_add(collective.bytes_total))
}

/// Where steps do not overlap as they are asked to, or though they could, and why.
fn apart(program: &Program, placed: &Placed, lowered: &Lowered) -> Vec<String> {
    let ops = placed.ops.iter().filter_map(|(value, plan)| Some((value, plan.as_ref()?)));
    let note = ops.filter_map(|(value, plan)| {
        let name = &program.values[value].name;
        match plan.via {
            Some(Overlap::None) => None,
            Some(via) => {
                let why = not_taken(via, lowered.overlap(value), placed.layout(value).has_stream())?;
                Some(format!("{name}: via {} is not taken: {why}", via.name()))
            }
            None => match lowered.overlap(value) {
                // That nothing is sent shows in the plan.
                Some(Err(why @ (Apart::NothingComputed | Apart::TooMany))) => {
                    Some(format!("{name}: its steps follow each other: {}", reason(why)))
                }
                _ => None,
            },
        }
    });
    note.collect()
}

/// Why a way that is asked for is not taken; `None` if it is.
fn not_taken(via: Overlap, overlap: Option<Result<Overlap, Apart>>, has_stream: bool) -> Option<String> {
    match overlap {
        // A value without a stream was told of when it was placed.
        None => has_stream.then(|| "it runs in one step".into()),
        Some(Ok(way)) if way == via => None,
        Some(Ok(Overlap::None)) => Some("it runs in one step".into()),
        Some(Ok(way)) => Some(format!(
            "its steps do not line up with the pieces of one all_gather or reduce_scatter, so they run via {}",
            way.name()
        )),
        Some(Err(why)) => Some(reason(why)),
    }
}

fn reason(why: Apart) -> String {
    match why {
        Apart::NothingSent => "its steps communicate nothing, so there is nothing to overlap".into(),
        Apart::NothingComputed => {
            "nothing is computed in its steps that could run beside what they send".into()
        }
        Apart::TooMany => format!("they are more than the {MOST_PIPELINED} of a pipeline"),
    }
}

fn values(program: &Program, sizes: &Sizes, placed: &Placed, home: &str) -> Vec<ValueReport> {
    let needed = placed.values.iter().filter_map(|(value, v)| Some((value, v.as_ref()?)));
    let report = needed.map(|(value, of_value)| {
        let ty = typed(program, sizes, value, &of_value.layout);
        ValueReport {
            name: program.values[value].name.clone(),
            dims: program.sized_dims(value, sizes),
            dtype: program.values[value].dtype.name(),
            placed: of_value.layout.text(&program.dim_names(value), Some(home)).to_string(),
            origin: of_value.origin.sentence(program, &placed.values, value),
            bytes_per_device: ty.largest_piece_bytes(),
        }
    });
    report.collect()
}

/// Operations by the devices that do them: those of different meshes add up only where the meshes
/// share a device.
#[derive(Default)]
struct Flops {
    per_device: Vec<u128>,
}

impl Flops {
    fn most(&self) -> u128 {
        self.per_device.iter().copied().max().unwrap_or(0)
    }
}

/// The loop around an instruction.
struct Around<'a> {
    counters: &'a [(StepId, u64)],
    steps: u64,
    overlap: Overlap,
}

struct Walk<'a> {
    local: &'a LocalProgram,
    collectives: Vec<CollectiveReport>,
    flops: Flops,
}

impl<'a> Walk<'a> {
    fn over(local: &'a LocalProgram) -> Walk<'a> {
        let mut walk = Walk { local, collectives: Vec::new(), flops: Flops::default() };
        walk.body(&local.body, &Around { counters: &[], steps: 1, overlap: Overlap::None });
        walk
    }

    fn body(&mut self, body: &[LocalInstr], around: &Around<'_>) {
        for instr in body {
            match instr {
                LocalInstr::Input(_) => {}
                LocalInstr::Compute(compute) => self.compute(compute),
                LocalInstr::Move(moved) if moved.kind.communicates() => {
                    self.collective(moved, around);
                }
                LocalInstr::Move(_) => {}
                LocalInstr::Loop(of_steps) => {
                    let counters = [around.counters, &of_steps.counters].concat();
                    let around =
                        Around { counters: &counters, steps: of_steps.steps, overlap: of_steps.overlap };
                    self.body(&of_steps.body, &around);
                }
            }
        }
    }

    fn ty(&self, id: LocalId) -> &TensorType {
        &self.local.values[id].ty
    }

    fn collective(&mut self, moved: &Move<LocalId>, around: &Around<'_>) {
        let Around { counters, steps, overlap } = *around;
        let source = &self.local.values[moved.source].ty;
        let traffic = match moved.path {
            Path::Direct => Traffic::in_loop(source, self.ty(moved.target), counters),
            Path::PassedOn => Traffic::passed_on(source, self.ty(moved.target)),
        };
        self.collectives.push(CollectiveReport {
            kind: moved.kind,
            value: self.local.values[moved.source].name.clone(),
            subject: match source.dims.iter().any(|(dim, _)| is_any_part_dim(dim)) {
                true => Subject::Summary,
                false => Subject::Value,
            },
            axes: moved.axes.clone(),
            group: moved.group,
            steps,
            overlap,
            bytes_per_device: traffic.bytes_per_device,
            bytes_total: traffic.bytes_total,
            because: moved.because.clone().unwrap_or_default(),
        });
    }

    /// All steps of a loop together do what the operation does without steps.
    fn compute(&mut self, compute: &Compute<LocalId>) {
        let sizes: Vec<u64> = compute.space.dims.values().map(|dim| dim.size).collect();
        let over = compute.over.all_steps();
        if product_flops(&compute.op, &compute.space, &sizes) == 0 {
            return;
        }
        let mesh = over.mesh();
        let cuts: Vec<_> = (0..over.ndim()).map(|dim| DimCuts::new(&over, dim, sizes[dim], &[])).collect();
        for place in 0..mesh.device_count() {
            let coords = mesh.coords(place);
            let extents: Vec<u64> = cuts.iter().map(|cuts| cuts.at(&coords).count()).collect();
            let device = Id::index(mesh.device_at(place));
            if self.flops.per_device.len() <= device {
                self.flops.per_device.resize(device + 1, 0);
            }
            let flops = product_flops(&compute.op, &compute.space, &extents);
            self.flops.per_device[device] = self.flops.per_device[device].saturating_add(flops);
        }
    }
}
