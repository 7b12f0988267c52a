//! Layouts from text: `b/dp, s/stream(4)/tp, partial(cp, max) on grid`.
//!
//! The mesh stands last, so the parts are read first and looked up after it. A layout may have several
//! mistakes; all are told.

use super::{Cuts, Factor, Layout, LayoutScope, Lookup, Partial, Peer, StepId, Steps, Whose, Writer};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote, quote_all};
use crate::dtype::Combine;
use crate::id::Id;
use crate::mesh::{AxisId, Mesh};
use crate::text::{Cursor, Kind, Reported};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One part of a layout as written.
enum Part<'a> {
    Replicated(Span),
    Partial {
        axes: Vec<(&'a str, Span)>,
        combine: Combine,
    },
    /// The dim is a name, or in a form that the compiler prints one as [`compilers_dim`] reads it.
    Cut {
        dim: Cow<'a, str>,
        span: Span,
        factors: Vec<FactorText<'a>>,
    },
}

/// One factor as written.
struct FactorText<'a> {
    name: &'a str,
    args: Option<Vec<Arg<'a>>>,
    span: Span,
}

#[derive(Clone, Copy)]
enum Arg<'a> {
    Count(u64),
    Word(&'a str),
}

impl Layout {
    /// A layout from a text of its own: `b/dp, s/tp`. `dims` are the names of the value's dims; there is
    /// no mesh but `mesh`.
    ///
    /// ```
    /// # use shardweave_compiler::{layout::Layout, mesh::Mesh};
    /// # use std::sync::Arc;
    /// let line: Arc<Mesh> = Arc::new("mesh line { tp = 4 }".parse()?);
    /// let rows = Layout::parse("s/tp(5, 3, 4, 4)", &["s", "e"], &line)?;
    /// # Ok::<(), shardweave_compiler::diagnostic::Diagnostics>(())
    /// ```
    pub fn parse(text: &str, dims: &[&str], mesh: &Arc<Mesh>) -> Result<Layout, Diagnostics> {
        let meshes = |name: &str| match name == mesh.name() {
            true => Lookup::Found(mesh.clone()),
            false => Lookup::Unknown,
        };
        let scope = LayoutScope {
            value: "the value",
            dims: Some(dims),
            home: Some(mesh),
            meshes: &meshes,
            writer: Writer::User,
        };
        let mut cursor = Cursor::new(text);
        let read = parse_layout(&mut cursor, &scope);
        if read.is_ok() && cursor.peek().kind != Kind::End {
            cursor.unexpected("the end of the layout");
        }
        let found = cursor.finish();
        match read {
            Ok(layout) => found.finish(layout),
            Err(Reported) => Err(found),
        }
    }
}

/// Reads a layout. `Err` if it has a mistake, or if its scope is not known because of one.
pub fn parse_layout(cursor: &mut Cursor<'_>, scope: &LayoutScope<'_>) -> Result<Layout, Reported> {
    let mut parts = vec![part(cursor, scope.writer)?];
    while cursor.eat(",").is_some() {
        parts.push(part(cursor, scope.writer)?);
    }
    let mesh = match cursor.eat_word("on") {
        Some(_) => {
            let (name, span) = cursor.name("the name of a mesh")?;
            named_mesh(cursor, scope, name, span)
        }
        None => scope.home.cloned(),
    };
    let before = cursor.mistakes();
    let mut build = Build { scope, mesh, cuts: Vec::new(), partial: Vec::new(), axes: BTreeMap::new() };
    build.cuts.resize(scope.dims.map_or(0, <[_]>::len), Cuts::new());
    build.parts(cursor, &parts);
    match (build.mesh, scope.dims) {
        (Some(mesh), Some(_)) if cursor.mistakes() == before => {
            Ok(Layout::new(mesh, build.cuts, build.partial).expect("no axis stands twice: that was told"))
        }
        _ => Err(Reported),
    }
}

fn named_mesh(cursor: &mut Cursor<'_>, scope: &LayoutScope<'_>, name: &str, span: Span) -> Option<Arc<Mesh>> {
    match (scope.meshes)(name) {
        Lookup::Found(mesh) => Some(mesh),
        Lookup::Broken => None,
        Lookup::Unknown => {
            let mistake =
                Diagnostic::at(Code::UnknownMesh, span, format!("there is no mesh {}", quote(name)));
            cursor.report(mistake.help("define it: `mesh NAME { tp = 4 }`"));
            None
        }
    }
}

/// `replicated`, `partial(tp, max)` or `s/dp/tp`. A dim may have the name of a word: the slash tells.
fn part<'a>(cursor: &mut Cursor<'a>, writer: Writer) -> Result<Part<'a>, Reported> {
    let (name, span) = cursor.name("a dim, `partial(...)` or `replicated`")?;
    if name == "replicated" && !cursor.at("/") {
        return Ok(Part::Replicated(span));
    }
    if name == "partial" && cursor.at("(") {
        return partial(cursor, span);
    }
    let mut dim = Cow::Borrowed(name);
    if writer == Writer::Compiler {
        dim = compilers_dim(cursor, name)?;
    }
    if !cursor.at("/") {
        let mistake = cursor.surprise(&format!("`/` and what cuts the dim {}", quote(&dim)));
        return Err(cursor.report(mistake.help(match cursor.at(":") {
            true => "each value has a line of its own",
            false => "a cut is written `s/tp`, a dim that is not cut is left out",
        })));
    }
    let mut factors = Vec::new();
    while cursor.eat("/").is_some() {
        factors.push(factor(cursor)?);
    }
    Ok(Part::Cut { dim, span, factors })
}

/// A dim that only the compiler has is spelled behind the name of a program's: `name@operand` is the dim of
/// one operand alone, `name@part` and `name@number` are those of a summary of its parts.
pub fn compilers_dim<'a>(cursor: &mut Cursor<'a>, name: &'a str) -> Result<Cow<'a, str>, Reported> {
    if cursor.eat("@").is_none() {
        return Ok(name.into());
    }
    Ok(match cursor.peek().kind {
        Kind::Name(word @ ("part" | "number")) => {
            cursor.bump();
            format!("{name}@{word}").into()
        }
        _ => format!("{name}@{}", cursor.count("the number of an operand, `part` or `number`")?.0).into(),
    })
}

fn partial<'a>(cursor: &mut Cursor<'a>, span: Span) -> Result<Part<'a>, Reported> {
    let mut axes = cursor.list("(", ")", |c| c.name("the name of an axis"))?;
    let last = axes.last().and_then(|(name, _)| Combine::from_name(name));
    if last.is_some() {
        axes.pop();
    }
    if let Some((operator, span)) = axes.iter().find(|(name, _)| Combine::from_name(name).is_some()) {
        let message = format!("{} is an operator: it stands last in `partial`, alone", quote(operator));
        let mistake = Diagnostic::at(Code::Syntax, *span, message);
        return Err(cursor.report(mistake.help("it is written `partial(tp, cp, max)`")));
    }
    if axes.is_empty() {
        let mistake = Diagnostic::at(Code::Syntax, span, "`partial` names at least one axis");
        return Err(cursor.report(mistake.help("it is written `partial(tp)` or `partial(tp, max)`")));
    }
    Ok(Part::Partial { axes, combine: last.unwrap_or(Combine::Sum) })
}

fn factor<'a>(cursor: &mut Cursor<'a>) -> Result<FactorText<'a>, Reported> {
    let (name, span) = cursor.name("an axis, `local(n)` or `stream`")?;
    let args = if cursor.at("(") { Some(cursor.list("(", ")", arg)?) } else { None };
    Ok(FactorText { name, args, span: cursor.span_from(span) })
}

fn arg<'a>(cursor: &mut Cursor<'a>) -> Result<Arg<'a>, Reported> {
    match cursor.peek().kind {
        Kind::Name(word) => {
            cursor.bump();
            Ok(Arg::Word(word))
        }
        _ => Ok(Arg::Count(cursor.count("a size")?.0)),
    }
}

/// What an axis does in a layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Cut,
    Partial,
}

/// Looks up the parts.
struct Build<'a> {
    scope: &'a LayoutScope<'a>,
    mesh: Option<Arc<Mesh>>,
    cuts: Vec<Cuts>,
    partial: Vec<Partial>,
    /// Where each axis stands.
    axes: BTreeMap<AxisId, Span>,
}

impl Build<'_> {
    fn parts(&mut self, cursor: &mut Cursor<'_>, parts: &[Part<'_>]) {
        let mut cut_at: BTreeMap<&str, Span> = BTreeMap::new();
        for part in parts {
            match part {
                Part::Replicated(span) if parts.len() > 1 => {
                    let message = "`replicated` stands alone: whole on every device of the mesh";
                    let mistake = Diagnostic::at(Code::BadCut, *span, message);
                    cursor.report(mistake.help("leave it out, or leave the other parts out"));
                }
                Part::Replicated(_) => {}
                Part::Partial { axes, combine } => {
                    for &(name, span) in axes {
                        let axis = self.axis(cursor, name, span, Use::Partial);
                        self.partial.extend(axis.map(|axis| Partial { axis, combine: *combine }));
                    }
                }
                Part::Cut { dim, span, factors } => {
                    if let Some(first) = cut_at.insert(dim, *span) {
                        let message = format!("the dim {} is cut twice", quote(dim));
                        let mistake =
                            Diagnostic::at(Code::DimTwice, *span, message).related(first, "first here");
                        cursor.report(mistake.help("several cuts of a dim are written `s/dp/tp`"));
                        // That its axes stand twice too is no mistake of its own.
                        self.axes.clear();
                    }
                    let cuts: Cuts =
                        factors.iter().filter_map(|factor| self.factor(cursor, factor)).collect();
                    self.cut(cursor, dim, *span, cuts);
                }
            }
        }
    }

    fn cut(&mut self, cursor: &mut Cursor<'_>, dim: &str, span: Span, cuts: Cuts) {
        let Some(dims) = self.scope.dims else { return };
        match dims.iter().position(|d| *d == dim) {
            Some(position) => self.cuts[position] = cuts,
            None => {
                let message = format!("{} has no dim {}", quote(self.scope.value), quote(dim));
                let help = format!("its dims are {}", quote_all(dims.iter().copied()));
                cursor.report(Diagnostic::at(Code::UnknownDim, span, message).help(help));
            }
        }
    }

    /// An axis that may be used here: the mesh has it, and it does not stand elsewhere in the layout.
    fn axis(&mut self, cursor: &mut Cursor<'_>, name: &str, span: Span, used: Use) -> Option<AxisId> {
        let mesh = self.mesh.as_ref()?;
        let Some(axis) = mesh.axis(name) else {
            cursor.report(unknown_axis(mesh, name, span, used));
            return None;
        };
        match self.axes.insert(axis, span) {
            None => Some(axis),
            Some(first) => {
                let message = format!(
                    "the axis {} stands twice in the layout of {}",
                    quote(name),
                    quote(self.scope.value)
                );
                let mistake = Diagnostic::at(Code::AxisTwice, span, message).related(first, "first here");
                cursor.report(mistake.help("an axis cuts one dim once, or is partial"));
                None
            }
        }
    }

    fn factor(&mut self, cursor: &mut Cursor<'_>, text: &FactorText<'_>) -> Option<Factor> {
        match (text.name, text.args.as_deref()) {
            ("stream", None) => Some(Factor::Stream(Steps::Whole)),
            ("stream", Some([Arg::Word("auto")])) => Some(Factor::Stream(Steps::Auto(1))),
            ("stream", Some([Arg::Count(count @ 1..)])) => Some(Factor::Stream(Steps::Count(*count))),
            ("local", Some([Arg::Count(count @ 1..)])) => Some(Factor::Local(*count)),
            ("stream", _) => bad_cut(cursor, text, "`stream`, `stream(4)` or `stream(auto)`"),
            ("local", _) => bad_cut(cursor, text, "`local(4)`"),
            ("step", Some([Arg::Count(count @ 1..), Arg::Word(step)]))
                if self.scope.writer == Writer::Compiler =>
            {
                counter(step)
                    .map(|step| Factor::Step(*count, step))
                    .or_else(|| bad_cut(cursor, text, "`step(4, i0)`"))
            }
            (name, Some([Arg::Word(axis), Arg::Word(step), sizes @ ..]))
                if self.scope.writer == Writer::Compiler && Whose::from_name(name).is_some() =>
            {
                self.peer(cursor, text, (axis, step), sizes)
            }
            (name, None) => self.axis(cursor, name, text.span, Use::Cut).map(Factor::Axis),
            (name, Some(args)) => {
                let axis = self.axis(cursor, name, text.span, Use::Cut)?;
                Some(Factor::Sizes(axis, self.sizes(cursor, text, axis, args)?))
            }
        }
    }

    /// `ahead(tp, i0)`, or `ahead(tp, i0, 5, 3)` where the pieces are given.
    fn peer(
        &mut self,
        cursor: &mut Cursor<'_>,
        text: &FactorText<'_>,
        (axis, step): (&str, &str),
        sizes: &[Arg<'_>],
    ) -> Option<Factor> {
        let whose = Whose::from_name(text.name)?;
        let Some(step) = counter(step) else { return bad_cut(cursor, text, "`ahead(tp, i0)`") };
        let mesh = self.mesh.as_ref()?;
        let Some(axis) = mesh.axis(axis) else {
            cursor.report(unknown_axis(mesh, axis, text.span, Use::Cut));
            return None;
        };
        let sizes = match sizes {
            [] => None,
            sizes => Some(self.sizes(cursor, text, axis, sizes)?),
        };
        Some(Factor::Peer(Peer { axis, sizes, whose, step }))
    }

    /// `tp(5, 3, 4, 4)`: as many as the axis is long. Whether they fit the dim shows when it has a size.
    fn sizes(
        &self,
        cursor: &mut Cursor<'_>,
        text: &FactorText<'_>,
        axis: AxisId,
        args: &[Arg<'_>],
    ) -> Option<Arc<[u64]>> {
        let counts = args.iter().map(|arg| match arg {
            Arg::Count(count) => Some(*count),
            Arg::Word(_) => None,
        });
        let Some(sizes) = counts.collect::<Option<Vec<u64>>>() else {
            return bad_cut(cursor, text, "`tp(5, 3, 4, 4)`, the sizes of the pieces");
        };
        let length = self.mesh.as_ref()?.size(axis);
        if sizes.len() as u64 != length {
            let message = format!(
                "the axis {} is {length} long, but {} sizes are given",
                quote(text.name),
                sizes.len()
            );
            let mistake = Diagnostic::at(Code::PieceCount, text.span, message);
            cursor.report(mistake.help("give one size, which may be 0, for each place along the axis"));
            return None;
        }
        if sizes.iter().try_fold(0_u64, |sum, &size| sum.checked_add(size)).is_none() {
            let mistake = Diagnostic::at(Code::TooLarge, text.span, "the sizes add up to more than 2^64");
            cursor.report(mistake.help("their sum is the size of the piece that is cut"));
            return None;
        }
        Some(sizes.into())
    }
}

/// `i0`
fn counter(word: &str) -> Option<StepId> {
    let digits = word.strip_prefix('i')?;
    digits.parse::<u16>().ok().map(|index| StepId::new(usize::from(index)))
}

fn unknown_axis(mesh: &Mesh, name: &str, span: Span, used: Use) -> Diagnostic {
    let message = format!("mesh {} has no axis {}", quote(mesh.name()), quote(name));
    let axes = quote_all(mesh.axes().values().map(|axis| axis.name.as_str()));
    let operators = Combine::ALL.map(Combine::name).join(" ");
    Diagnostic::at(Code::UnknownAxis, span, message).help(match used {
        Use::Cut => format!("its axes are {axes}"),
        Use::Partial => {
            format!("its axes are {axes}; the operator, last in `partial`, is one of {operators}")
        }
    })
}

fn bad_cut<T>(cursor: &mut Cursor<'_>, text: &FactorText<'_>, written: &str) -> Option<T> {
    let message = format!("{} cannot cut like this", quote(text.name));
    let mistake = Diagnostic::at(Code::BadCut, text.span, message);
    cursor.report(mistake.help(format!("it is written {written}; a count is at least 1")));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, writer: Writer) -> Result<String, String> {
        let grid = Arc::new(Mesh::new("grid", [("dp".into(), 2), ("tp".into(), 4)], None).expect("a mesh"));
        let late = Arc::new(Mesh::new("late", [("tp".into(), 2)], Some(vec![6, 7])).expect("a mesh"));
        let meshes = |name: &str| match name {
            "grid" => Lookup::Found(grid.clone()),
            "late" => Lookup::Found(late.clone()),
            _ => Lookup::Unknown,
        };
        let dims = ["b", "s", "replicated", "v@1"];
        let scope = LayoutScope { value: "x", dims: Some(&dims), home: Some(&grid), meshes: &meshes, writer };
        let mut cursor = Cursor::new(text);
        match parse_layout(&mut cursor, &scope) {
            Ok(layout) => Ok(layout.text(&dims, Some("grid")).to_string()),
            Err(Reported) => Err(cursor.finish().to_string()),
        }
    }

    #[test]
    fn layouts_print_as_they_were_written() {
        for text in [
            "replicated",
            "replicated on late",
            "b/dp, s/tp",
            "s/tp/dp",
            "b/local(2)/dp, s/stream(4)/tp(5, 3, 4, 4)",
            "b/stream, s/stream(auto), replicated/tp",
            "s/tp, partial(dp)",
            "partial(dp, tp, max)",
            "partial(tp), partial(dp, prod)",
            "s/tp on late",
        ] {
            assert_eq!(read(text, Writer::User).as_deref(), Ok(text));
        }
        for text in ["s/step(4, i0)/tp", "v@1/tp"] {
            assert_eq!(read(text, Writer::Compiler).as_deref(), Ok(text));
        }
    }

    #[test]
    fn all_mistakes_of_a_layout_are_told() {
        let found = read("b/tq, q/dp, s/tp/tp, s/local(0), b/dp", Writer::User).expect_err("many mistakes");
        for expected in [
            "error[E0204]: mesh `grid` has no axis `tq`\n  help: its axes are `dp`, `tp`",
            "error[E0403]: `x` has no dim `q`",
            "error[E0402]: the axis `tp` stands twice in the layout of `x`",
            "error[E0407]: `local` cannot cut like this",
            "error[E0404]: the dim `s` is cut twice",
        ] {
            assert!(found.contains(expected), "{expected} is not in\n{found}");
        }
        for (text, expected) in [
            ("s", "expected `/` and what cuts the dim `s`, found the end of the file"),
            ("s/step(4, i0)", "error[E0204]: mesh `grid` has no axis `step`"),
            ("s/local", "error[E0407]: `local` cannot cut like this"),
            ("s/stream(2, 2)", "error[E0407]: `stream` cannot cut like this"),
            ("s/tp(1, 2)", "error[E0405]: the axis `tp` is 4 long, but 2 sizes are given"),
            ("s/tp(18446744073709551615, 1, 0, 0)", "error[E0504]: the sizes add up to more than 2^64"),
            ("replicated, s/tp", "error[E0407]: `replicated` stands alone"),
            ("partial(max, tp)", "error[E0101]: `max` is an operator: it stands last"),
            ("partial(sum)", "error[E0101]: `partial` names at least one axis"),
            ("s/tp on nowhere", "error[E0203]: there is no mesh `nowhere`"),
        ] {
            let found = read(text, Writer::User).expect_err(text);
            assert!(found.starts_with(expected) || found.contains(expected), "{text}: {found}");
        }
    }
}
