//! Every pair of layouts on small meshes: the route planned between them, carried out fetch by fetch,
//! gives every device what its layout says, and sends exactly the bytes that the plan says.

use shardweave_compiler::cost::Cost;
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::instr::{Kind, TensorType};
use shardweave_compiler::layout::{Cuts, Factor, IndexSet, Layout, Partial};
use shardweave_compiler::mesh::{AxisId, DeviceId, Mesh};
use shardweave_compiler::reshard::route;
use shardweave_compiler::transfer::{Traffic, fetches, identity_of, reduced_axes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every device holds: its elements in row-major order of its piece.
type Held = BTreeMap<DeviceId, Vec<i64>>;

fn mesh(name: &str, axes: &[u64], devices: Option<Vec<u64>>) -> Arc<Mesh> {
    let axes = axes.iter().enumerate().map(|(i, &size)| (format!("a{i}"), size));
    Arc::new(Mesh::new(name, axes, devices).expect("a test's mesh is sound"))
}

/// All layouts of a value with `ndim` dims: each axis cuts a dim (in every order), is partial, or free.
fn layouts(mesh: &Arc<Mesh>, ndim: usize) -> Vec<Layout> {
    let mut all = vec![(vec![Cuts::new(); ndim], Vec::new())];
    for axis in mesh.axes().keys() {
        let mut next: Vec<(Vec<Cuts>, Vec<Partial>)> = Vec::new();
        for (cuts, partial) in all {
            next.push((cuts.clone(), partial.clone()));
            let mut with = partial.clone();
            with.push(Partial { axis, combine: Combine::Sum });
            next.push((cuts.clone(), with));
            for dim in 0..ndim {
                for place in 0..=cuts[dim].len() {
                    let mut cuts = cuts.clone();
                    cuts[dim].insert(place, Factor::Axis(axis));
                    next.push((cuts, partial.clone()));
                }
            }
        }
        all = next;
    }
    let layout = |(cuts, partial)| Layout::new(mesh.clone(), cuts, partial).expect("each axis stands once");
    all.into_iter().map(layout).collect()
}

fn elements(piece: &[IndexSet]) -> Vec<Vec<u64>> {
    piece.iter().fold(vec![Vec::new()], |points, set| {
        points.iter().flat_map(|point| set.iter().map(move |i| [&point[..], &[i]].concat())).collect()
    })
}

/// The part that a device at these partial coordinates has of an element.
fn part(layout: &Layout, sizes: &[u64], device: DeviceId, index: &[u64]) -> i64 {
    let coords = layout.mesh().coords(layout.mesh().place_of(device).expect("the device is in the mesh"));
    let flat = index.iter().zip(sizes).fold(0, |flat, (&i, &n)| flat * n + i) as i64;
    let parts = layout.partial().iter().map(|p| coords.along(p.axis) as i64);
    parts.fold(flat + 1, |value, coord| value * 7 + coord + 1)
}

fn scatter(ty: &TensorType) -> Held {
    let sizes = ty.sizes();
    let devices = ty.layout.mesh().devices();
    devices
        .map(|device| {
            let piece = ty.layout.piece_of(&sizes, device).expect("the device is in the mesh");
            let held = elements(&piece).iter().map(|index| part(&ty.layout, &sizes, device, index)).collect();
            (device, held)
        })
        .collect()
}

/// What the devices should hold after a move from `scatter(source)` to `target`.
fn expected(source: &TensorType, target: &TensorType) -> Held {
    let sizes = source.sizes();
    let mesh = source.layout.mesh();
    let reduced: Vec<AxisId> = reduced_axes(&source.layout, &target.layout).iter().map(|p| p.axis).collect();
    let devices = target.layout.mesh().devices();
    devices
        .map(|device| {
            let piece = target.layout.piece_of(&sizes, device).expect("the device is in the mesh");
            let own = target.layout.mesh().coords(target.layout.mesh().place_of(device).expect("as above"));
            let value = |index: &Vec<u64>| -> i64 {
                let added = target.layout.partial().iter().filter(|p| !source.layout.partial().contains(p));
                if added.clone().any(|p| own.along(p.axis) != 0) {
                    return 0;
                }
                let parts = mesh.coords_over(&reduced).map(|mut at| {
                    for kept in source.layout.partial().iter().filter(|p| !reduced.contains(&p.axis)) {
                        at.set(kept.axis, own.along(kept.axis));
                    }
                    part(&source.layout, &sizes, mesh.device_at(mesh.place(&at)), index)
                });
                parts.sum()
            };
            (device, elements(&piece).iter().map(value).collect())
        })
        .collect()
}

/// Carries out one move; returns what is held and the elements each device sent to others.
fn carry_out(source: &TensorType, target: &TensorType, held: &Held) -> (Held, BTreeMap<DeviceId, u64>) {
    let sizes = source.sizes();
    let mut sent = BTreeMap::new();
    let mut after = Held::new();
    for device in target.layout.mesh().devices() {
        let piece = target.layout.piece_of(&sizes, device).expect("the device is in the mesh");
        let shape: Vec<u64> = piece.iter().map(IndexSet::count).collect();
        let filled = identity_of(source, target, device).is_some();
        // What nobody writes must not matter: poison.
        let mut out = vec![if filled { 0 } else { i64::MIN / 4 }; elements(&piece).len()];
        for fetch in fetches(source, target, device, &[]) {
            let from = source.layout.piece_of(&sizes, fetch.from).expect("a sender is in the mesh");
            let from_shape: Vec<u64> = from.iter().map(IndexSet::count).collect();
            let mut points = vec![(0u64, 0u64)];
            for (dim, runs) in fetch.runs.iter().enumerate() {
                let (a, b) = (from_shape[dim], shape[dim]);
                points = points
                    .iter()
                    .flat_map(|&(x, y)| {
                        runs.iter().flat_map(move |run| {
                            (0..run.len).map(move |i| (x * a + run.at_first + i, y * b + run.at_second + i))
                        })
                    })
                    .collect();
            }
            if fetch.from != device {
                *sent.entry(fetch.from).or_default() += points.len() as u64;
            }
            for (x, y) in points {
                let value = held[&fetch.from][x as usize];
                let slot = &mut out[y as usize];
                *slot = if fetch.part == 0 { value } else { *slot + value };
            }
        }
        after.insert(device, out);
    }
    (after, sent)
}

fn check(source: &Layout, target: &Layout, sizes: &[u64]) {
    let dims: Vec<(String, u64)> = sizes.iter().enumerate().map(|(i, &n)| (format!("d{i}"), n)).collect();
    let names: Vec<&str> = dims.iter().map(|(name, _)| name.as_str()).collect();
    let of = |layout: &Layout| TensorType { dims: dims.clone(), dtype: DType::I64, layout: layout.clone() };
    let what = format!("{} -> {} of {sizes:?}", source.text(&names, None), target.text(&names, None));
    let route = route(&of(source), target, &Cost::default());
    let mut at = of(source);
    let mut held = scatter(&at);
    for leg in &route.legs {
        let next = of(&leg.target);
        let traffic = Traffic::of(&at, &next);
        let (after, sent) = carry_out(&at, &next, &held);
        if traffic.kind == Kind::AllReduce {
            let piece = held.values().map(Vec::len).max().unwrap_or(0) as u64;
            let slice = piece.div_ceil(traffic.group);
            let most = piece - slice + (traffic.group - 1) * slice;
            assert_eq!(traffic.bytes_per_device, most * 8, "{what}");
        } else {
            assert_eq!(traffic.bytes_total, sent.values().sum::<u64>() * 8, "{what}: {traffic:?}");
            assert_eq!(
                traffic.bytes_per_device,
                sent.values().max().unwrap_or(&0) * 8,
                "{what}: {traffic:?}"
            );
        }
        held = after;
        at = next;
    }
    // Reductions over several legs add the same parts as one would.
    let wanted =
        if route.legs.is_empty() { scatter(&of(source)) } else { expected(&of(source), &of(target)) };
    if route.legs.is_empty() {
        assert!(source.same_as(target, sizes), "{what}: nothing moves between different layouts");
    }
    assert_eq!(held, wanted, "{what}: {:?}", route.legs);
    // No intermediate piece is larger than source or target.
    let largest = |layout: &Layout| layout.largest_piece(sizes).iter().product::<u64>();
    for leg in &route.legs {
        assert!(largest(&leg.target) <= largest(source).max(largest(target)), "{what}: too much memory");
    }
}

fn all_pairs(from: &Arc<Mesh>, to: &Arc<Mesh>, shapes: &[&[u64]]) {
    for sizes in shapes {
        for source in layouts(from, sizes.len()) {
            for target in layouts(to, sizes.len()) {
                let crosses = !from.same_grid(to);
                if crosses && !target.partial().is_empty() {
                    continue; // parts do not keep their meaning on another mesh: see `parts_on_another_mesh`
                }
                check(&source, &target, sizes);
            }
        }
    }
}

#[test]
fn one_axis() {
    for n in [1, 2, 3, 5] {
        let line = mesh("line", &[n], None);
        all_pairs(&line, &line, &[&[7, 4], &[10, 5], &[2, 3], &[0, 4], &[1, 1], &[5]]);
    }
}

#[test]
fn two_axes() {
    for axes in [[2, 2], [2, 3], [3, 2], [1, 4], [4, 1]] {
        let grid = mesh("grid", &axes, None);
        all_pairs(&grid, &grid, &[&[8, 12], &[7, 5], &[2, 3], &[3, 0]]);
    }
}

#[test]
fn three_axes() {
    let cube = mesh("cube", &[2, 2, 2], None);
    all_pairs(&cube, &cube, &[&[8, 8], &[5, 3]]);
}

#[test]
fn permuted_devices_and_other_grids() {
    let line = mesh("line", &[4], None);
    let shuffled = mesh("shuffled", &[4], Some(vec![2, 3, 0, 1]));
    let grid = mesh("grid", &[2, 2], None);
    let late = mesh("late", &[2], Some(vec![5, 3]));
    let shapes: &[&[u64]] = &[&[8, 4], &[5, 3], &[2, 0]];
    for (a, b) in [
        (&line, &shuffled),
        (&line, &grid),
        (&grid, &line),
        (&line, &late),
        (&late, &line),
        (&shuffled, &grid),
    ] {
        all_pairs(a, b, shapes);
    }
}

#[test]
fn blocks_and_given_pieces() {
    let line = mesh("line", &[3], None);
    let axis = line.axis("a0").expect("the mesh has this axis");
    let cuts: Vec<Cuts> = vec![
        vec![],
        vec![Factor::Axis(axis)],
        vec![Factor::Local(2), Factor::Axis(axis)],
        vec![Factor::Axis(axis), Factor::Local(2)],
        vec![Factor::Sizes(axis, [5, 0, 6].into())],
        vec![Factor::Sizes(axis, [0, 11, 0].into())],
    ];
    let layouts: Vec<Layout> = cuts
        .iter()
        .map(|cuts| Layout::new(line.clone(), vec![cuts.clone(), vec![]], vec![]).expect("one axis"))
        .collect();
    for source in &layouts {
        for target in &layouts {
            check(source, target, &[11, 3]);
        }
    }
}
