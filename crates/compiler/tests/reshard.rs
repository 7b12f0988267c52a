//! Every pair of layouts on small meshes: the route planned between them, carried out fetch by fetch,
//! gives every device what its layout says, and sends exactly the bytes that the plan says.

use shardweave_compiler::cost::Cost;
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::instr::{Kind, TensorType};
use shardweave_compiler::layout::{Cuts, Factor, IndexSet, Layout, Partial, volume};
use shardweave_compiler::mesh::{AxisId, DeviceId, Mesh};
use shardweave_compiler::reshard::{Route, route};
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

/// Which elements a device's part of the target can have, dim by dim: where an axis becomes partial, a
/// device keeps what was at its own coordinate if the axis cut the source; else coordinate 0 has it all,
/// and the others none.
fn put(source: &Layout, target: &Layout, sizes: &[u64], device: DeviceId) -> Option<Vec<IndexSet>> {
    let coords = |layout: &Layout, device| {
        let mesh = layout.mesh();
        mesh.coords(mesh.place_of(device).expect("the device is in the mesh"))
    };
    let own = coords(target, device);
    let one_grid = source.mesh().same_grid(target.mesh());
    let added = target.partial().iter().filter(|p| !source.partial().contains(p)).map(|p| p.axis);
    let (in_place, placed): (Vec<AxisId>, Vec<AxisId>) =
        added.partition(|&axis| one_grid && source.mesh().size(axis) > 1 && source.cuts_by(axis).is_some());
    if placed.iter().any(|&axis| own.along(axis) != 0) {
        return None;
    }
    if in_place.is_empty() {
        return Some(sizes.iter().map(|&size| IndexSet::range(0, size)).collect());
    }
    let at_own = |other: &DeviceId| {
        let other = coords(source, *other);
        in_place.iter().all(|&axis| other.along(axis) == own.along(axis))
    };
    let pieces = source.mesh().devices().filter(at_own).map(|other| source.piece_of(sizes, other));
    let pieces = pieces.map(|piece| piece.expect("the device is in the mesh"));
    pieces.reduce(|all, piece| all.iter().zip(&piece).map(|(a, b)| a.union(b)).collect())
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
            let put = put(&source.layout, &target.layout, &sizes, device);
            let value = |index: &Vec<u64>| -> i64 {
                let is_put = |put: &Vec<IndexSet>| {
                    index.iter().zip(put).all(|(i, set)| set.below(i + 1) > set.below(*i))
                };
                if !put.as_ref().is_some_and(is_put) {
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

/// The least that any way from one layout to the other sends, in elements.
///
/// Without a reduction a device receives each element that it is to hold and does not hold. With one,
/// the `g` parts of an element have to meet, which takes `g - 1` messages, and every device but the one
/// where they meet receives a message for each element that it is to hold.
fn least(source: &Layout, target: &Layout, sizes: &[u64]) -> u64 {
    let mesh = source.mesh();
    let size_of = |p: &Partial| mesh.size(p.axis);
    let reduced: Vec<Partial> = reduced_axes(source, target).into_iter().filter(|p| size_of(p) > 1).collect();
    let received = |device: DeviceId| {
        let Some(put) = put(source, target, sizes, device) else { return 0 };
        let wanted = target.piece_of(sizes, device).expect("the device is in the mesh");
        let wanted: Vec<IndexSet> = wanted.iter().zip(&put).map(|(a, b)| a.intersect(b)).collect();
        let held = source.piece_of(sizes, device).filter(|_| reduced.is_empty());
        let shared = |held: Vec<IndexSet>| wanted.iter().zip(&held).map(|(a, b)| a.shared(b)).product();
        volume(&wanted) - held.map_or(0, shared)
    };
    let received: u64 = target.mesh().devices().map(received).sum();
    if reduced.is_empty() {
        return received;
    }
    let parts: u64 = reduced.iter().map(size_of).product();
    let kept = source.partial().iter().filter(|p| !reduced.contains(p)).map(size_of);
    received + kept.product::<u64>() * sizes.iter().product::<u64>() * (parts - 2)
}

fn typed(sizes: &[u64], layout: &Layout) -> TensorType {
    let dims = sizes.iter().enumerate().map(|(i, &n)| (format!("d{i}"), n)).collect();
    TensorType { dims, dtype: DType::I64, layout: layout.clone() }
}

/// The route from one layout to the other sends what it must, and no device holds more than its piece
/// of the source or of the target in between.
fn planned(source: &Layout, target: &Layout, sizes: &[u64]) -> Route {
    let route = route(&typed(sizes, source), target, &Cost::default());
    let what = || told(source, target, sizes);
    let least = least(source, target, sizes) * DType::I64.size();
    let whole = reduced_axes(source, target).iter().all(|p| source.mesh().size(p.axis) == 1);
    if whole {
        assert_eq!(route.bytes_total(), least, "{}: {route:?}", what());
        assert!(route.legs.len() <= 1, "{}: {route:?}", what());
    } else {
        // More than that where replicas of parts reduce beside each other rather than wait for one.
        assert!(least <= route.bytes_total(), "{}: {route:?}", what());
    }
    let largest = |layout: &Layout| layout.largest_piece(sizes).iter().product::<u64>();
    for leg in &route.legs {
        assert!(largest(&leg.target) <= largest(source).max(largest(target)), "{}: {route:?}", what());
    }
    if route.legs.is_empty() {
        assert!(source.same_as(target, sizes), "{}: nothing moves between different layouts", what());
    }
    route
}

fn told(source: &Layout, target: &Layout, sizes: &[u64]) -> String {
    let names: Vec<String> = (0..sizes.len()).map(|i| format!("d{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("{} -> {} of {sizes:?}", source.text(&names, None), target.text(&names, None))
}

/// [`planned`], and carried out: every device gets what it is to hold.
fn check(source: &Layout, target: &Layout, sizes: &[u64]) {
    let of = |layout: &Layout| typed(sizes, layout);
    let what = told(source, target, sizes);
    let route = planned(source, target, sizes);
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
            // Here every member sends each element to all others; by slices, they send it to one of them,
            // who sends what they make to all.
            let total = 2 * sent.values().sum::<u64>() / traffic.group;
            assert_eq!(traffic.bytes_total, total * 8, "{what}: {traffic:?}");
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
    assert_eq!(held, wanted, "{what}: {:?}", route.legs);
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
    for axes in [[2, 2], [2, 3], [3, 2], [1, 4], [4, 1], [1, 5]] {
        let grid = mesh("grid", &axes, None);
        all_pairs(&grid, &grid, &[&[8, 12], &[7, 5], &[2, 3], &[3, 0]]);
    }
}

#[test]
fn three_axes() {
    let cube = mesh("cube", &[2, 2, 2], None);
    all_pairs(&cube, &cube, &[&[8, 8], &[5, 3]]);
}

/// Whether a layout uses the axes of its mesh in their order, cuts before partial ones: one of all the
/// layouts that differ only in which of several equally long axes is called what.
fn in_order(layout: &Layout) -> bool {
    let cut = layout.cuts().iter().flatten().filter_map(Factor::axis);
    let used: Vec<AxisId> = cut.chain(layout.partial().iter().map(|p| p.axis)).collect();
    used.iter().copied().eq(layout.mesh().axes().keys().take(used.len()))
}

/// Eight devices, every way to use three axes in every order. All pairs are planned, up to the names of
/// the axes; of the large shapes some are carried out.
#[test]
fn sb13_all_inputs_to_all_outputs() {
    let cube = mesh("cube", &[2, 2, 2], None);
    let shapes: [(&[u64], usize); 4] =
        [(&[16, 8], 1), (&[17, 5], 1), (&[8, 16, 32], 211), (&[33, 16, 8, 1], 1009)];
    for (sizes, every) in shapes {
        let all = layouts(&cube, sizes.len());
        let sources = all.iter().filter(|source| in_order(source));
        let pairs = sources.flat_map(|source| all.iter().map(move |target| (source, target)));
        for (n, (source, target)) in pairs.enumerate() {
            if n.is_multiple_of(every) {
                check(source, target, sizes);
            } else {
                planned(source, target, sizes);
            }
        }
    }
}

#[test]
fn permuted_devices_and_other_grids() {
    let line = mesh("line", &[4], None);
    let shuffled = mesh("shuffled", &[4], Some(vec![2, 3, 0, 1]));
    let grid = mesh("grid", &[2, 2], None);
    let turned = mesh("turned", &[2, 2], Some(vec![0, 2, 1, 3]));
    let late = mesh("late", &[2], Some(vec![5, 3]));
    let far = mesh("far", &[2, 3], Some((4..10).collect()));
    let shapes: &[&[u64]] = &[&[8, 4], &[5, 3], &[2, 0]];
    for (a, b) in [
        (&line, &shuffled),
        (&line, &grid),
        (&grid, &line),
        (&line, &late),
        (&late, &line),
        (&shuffled, &grid),
        (&line, &far),
        (&far, &grid),
        (&grid, &turned),
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
