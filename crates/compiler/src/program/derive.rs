//! Sizes that follow from operations, in both directions, until nothing new follows.
//!
//! State: the sizes known so far, and the values whose operation may say something new, in program
//! order. When a size becomes known, every operation that has a relation with the dim is looked at
//! again; sizes are never forgotten, so this ends.

use super::sizes::{SizeBinder, SizeSource};
use super::{Apply, DimId, ValueId};
use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::id::Table;
use crate::op::{Op, Pattern, atom_sizes};
use std::collections::{BTreeMap, BTreeSet};

/// What an operation says about sizes.
enum Relation<'p> {
    /// Two names of one dim; the word is how a message names what ties them.
    Same(DimId, DimId, &'p str),
    /// The parts and the extra make the total.
    Sum { parts: Vec<DimId>, extra: u128, total: DimId },
    /// A `rearrange`.
    Rearrange { pattern: &'p Pattern, given: &'p [(String, u64)], operand: &'p [DimId], result: &'p [DimId] },
}

impl Relation<'_> {
    fn dims(&self) -> Vec<DimId> {
        match self {
            Relation::Same(a, b, _) => vec![*a, *b],
            Relation::Sum { parts, total, .. } => parts.iter().copied().chain([*total]).collect(),
            Relation::Rearrange { operand, result, .. } => operand.iter().chain(*result).copied().collect(),
        }
    }
}

impl<'p> SizeBinder<'p> {
    /// Carries sizes on through the operations that an output needs; gives whether all fit.
    pub(super) fn derive(&mut self) -> bool {
        let relations: BTreeMap<ValueId, Vec<Relation<'p>>> = self.relations();
        let mut users: Table<DimId, BTreeSet<ValueId>> =
            self.program.dims.keys().map(|_| BTreeSet::new()).collect();
        for (&value, list) in &relations {
            for dim in list.iter().flat_map(Relation::dims) {
                users[dim].insert(value);
            }
        }
        let mut open: BTreeSet<ValueId> = relations.keys().copied().collect();
        while let Some(value) = open.pop_first() {
            for relation in &relations[&value] {
                for dim in self.carry(value, relation) {
                    open.extend(&users[dim]);
                }
            }
        }
        let all =
            relations.iter().flat_map(|(&value, list)| list.iter().map(move |relation| (value, relation)));
        let mistakes: Vec<Diagnostic> =
            all.filter_map(|(value, relation)| self.agrees(value, relation).err()).collect();
        let fits = mistakes.is_empty();
        mistakes.into_iter().for_each(|mistake| self.found.push(mistake));
        fits
    }

    fn relations(&self) -> BTreeMap<ValueId, Vec<Relation<'p>>> {
        let program = self.program;
        let needed = program.values.keys().filter(|&value| self.needed[value]);
        let list = needed.filter_map(|value| {
            let relations = self.relations_of(value, program.apply(value)?);
            (!relations.is_empty()).then_some((value, relations))
        });
        list.collect()
    }

    fn relations_of(&self, value: ValueId, apply: &'p Apply) -> Vec<Relation<'p>> {
        let program = self.program;
        let dims = |v: ValueId| &program.values[v].dims[..];
        let dim = |name: &str| program.dim(name);
        let mut operands = apply.values();
        match &apply.op {
            Op::Rename(pairs) => {
                pairs.iter().filter_map(|(from, to)| Some(Relation::Same(dim(from)?, dim(to)?, to))).collect()
            }
            Op::Pad { dim: from, to, before, after } => {
                let sum = |from, total| Relation::Sum {
                    parts: vec![from],
                    extra: u128::from(*before) + u128::from(*after),
                    total,
                };
                dim(from).zip(dim(to)).map(|(from, to)| sum(from, to)).into_iter().collect()
            }
            Op::Concat { to } => {
                let (Some(total), Some(first)) = (dim(to), operands.next()) else { return Vec::new() };
                let result: BTreeSet<DimId> = dims(value).iter().copied().collect();
                let place = |v: ValueId| dims(v).iter().position(|d| *d == total || !result.contains(d));
                let parts = apply.values().filter_map(|v| Some(dims(v)[place(v).or(place(first))?]));
                vec![Relation::Sum { parts: parts.collect(), extra: 0, total }]
            }
            Op::Einsum(pattern) => self.einsum_relations(value, pattern, operands.collect()),
            Op::Rearrange { pattern, sizes } => match operands.next() {
                Some(operand) => {
                    // The pattern says the result's dims in its own order; `-> [..]` may have moved them.
                    vec![Relation::Rearrange {
                        pattern,
                        given: sizes,
                        operand: dims(operand),
                        result: dims(value),
                    }]
                }
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Every name of the pattern is one size, wherever it stands.
    fn einsum_relations(
        &self,
        value: ValueId,
        pattern: &'p Pattern,
        operands: Vec<ValueId>,
    ) -> Vec<Relation<'p>> {
        let mut first: BTreeMap<&str, DimId> = BTreeMap::new();
        let mut relations = Vec::new();
        let sides = pattern.operands.iter().zip(operands);
        let named = sides.flat_map(|(groups, operand)| {
            groups
                .iter()
                .filter_map(|group| group.dim())
                .zip(self.program.values[operand].dims.iter().copied())
        });
        for (name, dim) in named {
            let known = *first.entry(name).or_insert(dim);
            if known != dim {
                relations.push(Relation::Same(known, dim, name));
            }
        }
        for &dim in &self.program.values[value].dims {
            let name = self.program.dims[dim].name.as_str();
            if let Some((&name, &known)) = first.get_key_value(name).filter(|(_, known)| **known != dim) {
                relations.push(Relation::Same(known, dim, name));
            }
        }
        relations
    }

    fn size(&self, dim: DimId) -> Option<u64> {
        self.known[dim].as_ref().map(|(size, _)| *size)
    }

    /// Learns what a relation says about sizes that are not known; gives the dims that became known.
    fn carry(&mut self, value: ValueId, relation: &Relation<'p>) -> Vec<DimId> {
        let mut learned = Vec::new();
        match relation {
            Relation::Same(a, b, _) => match (self.size(*a), self.size(*b)) {
                (Some(size), None) => learned.push((*b, size)),
                (None, Some(size)) => learned.push((*a, size)),
                _ => {}
            },
            Relation::Sum { parts, extra, total } => learned.extend(self.missing_part(parts, *extra, *total)),
            Relation::Rearrange { pattern, given, operand, result } => {
                let result = in_pattern_order(self, pattern, result);
                let known = |dims: &[DimId]| dims.iter().map(|&dim| self.size(dim)).collect::<Vec<_>>();
                if let Ok(sizes) = atom_sizes(pattern, given, &known(operand), &known(&result)) {
                    let dims = operand.iter().chain(&result).copied();
                    let pairs = dims.zip(sizes.operand.iter().chain(&sizes.result));
                    learned.extend(pairs.filter_map(|(dim, size)| Some((dim, (*size)?))));
                }
            }
        }
        learned.retain(|(dim, _)| self.known[*dim].is_none());
        for (dim, size) in &learned {
            self.known[*dim].get_or_insert((*size, SizeSource::Follows(value)));
        }
        learned.into_iter().map(|(dim, _)| dim).collect()
    }

    /// The one size of a sum that is not known, if the others say it.
    fn missing_part(&self, parts: &[DimId], extra: u128, total: DimId) -> Option<(DimId, u64)> {
        let mut unknown = parts.iter().filter(|&&part| self.size(part).is_none());
        let known: u128 =
            extra + parts.iter().filter_map(|&part| self.size(part)).map(u128::from).sum::<u128>();
        match (unknown.next(), unknown.next(), self.size(total)) {
            (None, _, None) => Some((total, u64::try_from(known).ok()?)),
            (Some(&part), None, Some(size)) => {
                Some((part, u64::try_from(u128::from(size).checked_sub(known)?).ok()?))
            }
            _ => None,
        }
    }

    /// Whether the sizes that are known fit a relation.
    fn agrees(&self, value: ValueId, relation: &Relation<'p>) -> Result<(), Diagnostic> {
        let place = self.program.values[value].span;
        let op = self.program.apply(value).map_or("", |apply| apply.op.name());
        let of = format!("the `{op}` that gives {}", quote(&self.program.values[value].name));
        match relation {
            Relation::Same(a, b, name) if self.size(*a).zip(self.size(*b)).is_some_and(|(a, b)| a != b) => {
                let (a, b) = (self.told(*a), self.told(*b));
                let message = format!("{of} has one size for {}, but {a} and {b}", quote(name));
                Err(Diagnostic::at(Code::SizeConflict, place, message).help("give both the same size"))
            }
            Relation::Same(..) => Ok(()),
            Relation::Sum { parts, extra, total } => self.sum_agrees(parts, *extra, *total, &of, place),
            Relation::Rearrange { pattern, given, operand, result } => {
                let dims = (*operand, &in_pattern_order(self, pattern, result)[..]);
                self.rearrange_agrees(pattern, given, dims, &of, place)
            }
        }
    }

    fn sum_agrees(
        &self,
        parts: &[DimId],
        extra: u128,
        total: DimId,
        of: &str,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let known: u128 =
            extra + parts.iter().filter_map(|&part| self.size(part)).map(u128::from).sum::<u128>();
        let all_known = parts.iter().all(|&part| self.size(part).is_some());
        match self.size(total).map(u128::from) {
            Some(size) if known == size || (known < size && !all_known) => Ok(()),
            None if !all_known || known <= u128::from(u64::MAX) => Ok(()),
            None => {
                let message = format!("{of} makes {} of size {known}", self.named(total));
                Err(Diagnostic::at(Code::TooLarge, place, message).help("a size is below 2^64"))
            }
            Some(_) => {
                let (parts, more) = parts.split_at(parts.len().min(8));
                let mut told: Vec<String> = parts.iter().map(|&part| self.told(part)).collect();
                if !more.is_empty() {
                    told.push(format!("{} more", more.len()));
                }
                let message = format!("{of} makes {known} ({}), but {}", told.join(", "), self.told(total));
                let mistake = Diagnostic::at(Code::SizeConflict, place, message);
                Err(mistake.help("leave one of these sizes to follow"))
            }
        }
    }

    fn rearrange_agrees(
        &self,
        pattern: &Pattern,
        given: &[(String, u64)],
        (operand, result): (&[DimId], &[DimId]),
        of: &str,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let known = |dims: &[DimId]| dims.iter().map(|&dim| self.size(dim)).collect::<Vec<_>>();
        let sizes = atom_sizes(pattern, given, &known(operand), &known(result)).map_err(|why| {
            Diagnostic::at(Code::SizeRange, place, format!("in {of}, {why}"))
                .help(format!("its dims: {}", self.told_all(operand.iter().chain(result))))
        })?;
        let operand_known = sizes.operand.iter().all(Option::is_some);
        let is_dim = |name: &str| pattern.result.iter().any(|group| group.dim() == Some(name));
        match sizes.atoms.iter().find(|(name, size)| size.is_none() && !is_dim(name)) {
            Some((name, _)) if operand_known => {
                let message = format!("in {of}, the size of {} does not follow", quote(name));
                let help = format!("give it after the pattern: `{}=N`", quote(name).trim_matches('`'));
                Err(Diagnostic::at(Code::SizeMissing, place, message).help(help))
            }
            _ => Ok(()),
        }
    }

    fn named(&self, dim: DimId) -> String {
        quote(&self.program.dims[dim].name)
    }

    /// A dim with its size and source: `` `k` is 3 (given with `--size`) ``.
    fn told(&self, dim: DimId) -> String {
        let name = self.named(dim);
        match &self.known[dim] {
            Some((size, source)) => format!("{name} is {size} ({})", self.describe(source)),
            None => format!("{name} is not known"),
        }
    }

    fn told_all<'a>(&self, dims: impl Iterator<Item = &'a DimId>) -> String {
        let known: BTreeSet<DimId> = dims.copied().filter(|&dim| self.known[dim].is_some()).collect();
        known.into_iter().take(8).map(|dim| self.told(dim)).collect::<Vec<_>>().join(", ")
    }
}

/// The result's dims in the order of the pattern's right side.
fn in_pattern_order(binder: &SizeBinder<'_>, pattern: &Pattern, result: &[DimId]) -> Vec<DimId> {
    let named = |name: &str| result.iter().copied().find(|&dim| binder.program.dims[dim].name == name);
    pattern.result.iter().filter_map(|group| named(group.dim()?)).collect()
}
