//! Placements written in Rust.
//!
//! ```
//! # use shardweave_compiler::{dtype::DType, mesh::Mesh, op::Op, program::Program};
//! # use std::sync::Arc;
//! use shardweave_compiler::placement::Placement;
//! # let layer = Program::builder("layer")
//! #     .input("x", DType::F32, ["s", "e"])
//! #     .input("w", DType::F32, ["h", "e"])
//! #     .op("y", Op::Linear, ["x", "w"])
//! #     .output("y")
//! #     .finish()?;
//!
//! let line: Arc<Mesh> = Arc::new("mesh line { tp = 4 }".parse()?);
//! let columns = Placement::builder("columns", &layer, &line).place("x", "s/tp").place("w", "h/tp").finish()?;
//! # assert_eq!(columns.entries().len(), 2);
//! # Ok::<(), shardweave_compiler::diagnostic::Diagnostics>(())
//! ```
//!
//! As a program's builder, this one says what the text says, and its text is read by the one reader of
//! placements.

use super::{Communication, Overlap, Placement, parse_placement};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, quote};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::program::Program;
use crate::text::check_built;
use std::sync::Arc;

/// A placement in the making: see [`Placement::builder`].
#[derive(Clone, Debug)]
pub struct PlacementBuilder<'a> {
    program: &'a Program,
    name: String,
    /// The first is that of values that name no other.
    meshes: Vec<Arc<Mesh>>,
    communication: Communication,
    /// `x: s/tp`, in the order written.
    entries: Vec<String>,
    /// Parts that the text cannot say.
    found: Diagnostics,
}

impl Placement {
    /// A placement of a program in the making, on a mesh.
    pub fn builder<'a>(name: &str, program: &'a Program, mesh: &Arc<Mesh>) -> PlacementBuilder<'a> {
        let mut builder = PlacementBuilder {
            program,
            name: name.into(),
            meshes: Vec::new(),
            communication: Communication::Anywhere,
            entries: Vec::new(),
            found: Diagnostics::new(),
        };
        check_built(name, &mut builder.found);
        builder.mesh(mesh);
        builder
    }
}

impl PlacementBuilder<'_> {
    /// One more mesh, which layouts name after `on`.
    pub fn mesh(&mut self, mesh: &Arc<Mesh>) -> &mut Self {
        check_built(mesh.name(), &mut self.found);
        match self.meshes.iter().find(|known| known.name() == mesh.name()) {
            None => self.meshes.push(mesh.clone()),
            Some(known) if known == mesh => {}
            Some(_) => {
                let message = format!("two different meshes have the name {}", quote(mesh.name()));
                self.found.push(Diagnostic::general(Code::DuplicateName, message));
            }
        }
        self
    }

    /// Communication may happen only at a `reshard`.
    pub fn strict(&mut self) -> &mut Self {
        self.communication = Communication::AtReshards;
        self
    }

    /// `x: b/dp, s/tp`: a value with its layout as the language writes it, ` on MESH` and ` via ring` too.
    pub fn place(&mut self, value: &str, layout: &str) -> &mut Self {
        check_built(value, &mut self.found);
        if layout.contains(['\n', '\r', '#', '}']) {
            let message = format!("{} is not one layout", quote(layout));
            self.found.push(Diagnostic::general(Code::Syntax, message));
        }
        self.entries.push(format!("{value}: {layout}"));
        self
    }

    /// The same with a layout that is there already; its mesh need not be named before.
    pub fn place_at(&mut self, value: &str, layout: &Layout) -> &mut Self {
        let text = self.text_of(value, layout);
        self.place(value, &text)
    }

    /// The same; also pins how the operation that produces the value overlaps.
    pub fn place_via(&mut self, value: &str, layout: &Layout, via: Overlap) -> &mut Self {
        let text = self.text_of(value, layout);
        self.place(value, &format!("{text} via {}", via.name()))
    }

    fn text_of(&mut self, value: &str, layout: &Layout) -> String {
        self.mesh(layout.mesh());
        let Some(id) = self.program.value(value) else {
            return "replicated".into(); // that there is no such value is told when the text is read
        };
        let dims = self.program.dim_names(id);
        if dims.len() != layout.ndim() {
            let message = format!(
                "the layout given for {} is of a value with {} dims, but it has {}",
                quote(value),
                layout.ndim(),
                dims.len()
            );
            self.found.push(Diagnostic::general(Code::UnknownDim, message));
        }
        layout.text(&dims, Some(self.meshes[0].name())).to_string()
    }

    /// The placement as text: what the places of mistakes are in.
    pub fn text(&self) -> String {
        let strict = self.communication.prefix();
        let (name, program, mesh) = (&self.name, &self.program.name, self.meshes[0].name());
        let entries: String = self.entries.iter().map(|entry| format!("  {entry}\n")).collect();
        format!("placement {strict}{name} for {program} on {mesh} {{\n{entries}}}\n")
    }

    /// The placement; all mistakes if there are any. The builder can go on from here.
    pub fn finish(&self) -> Result<Placement, Diagnostics> {
        self.found.clone().finish(())?;
        parse_placement(&self.text(), self.program, &self.meshes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        "program p {\ninput x: f32[s, t]\ny = reshard(x)\noutput y\n}".parse().expect("a program")
    }

    fn mesh(text: &str) -> Arc<Mesh> {
        Arc::new(text.parse().expect(text))
    }

    #[test]
    fn a_built_placement_is_what_its_text_says() {
        let (program, line, late) =
            (program(), mesh("mesh line { tp = 2 }"), mesh("mesh late { a = 2 } devices [3, 2]"));
        let cut = Layout::parse("t/a(1, 2), s/stream(2)", &["s", "t"], &late).expect("a layout");
        let mut builder = Placement::builder("q", &program, &line);
        builder.strict().place("x", "s/tp, partial(tp)").place_via("y", &cut, Overlap::Ring);
        let found = builder.finish().expect_err("an axis stands twice").to_string();
        assert!(found.contains("`tp` stands twice in the layout of `x`"), "{found}");
        let mut builder = Placement::builder("q", &program, &line);
        builder.strict().place("x", "s/tp").place_via("y", &cut, Overlap::Ring);
        let text = "placement strict q for p on line {
  x: s/tp
  y: s/stream(2), t/a(1, 2) on late via ring
}";
        assert_eq!(builder.finish().expect("a placement").text(&program).to_string(), text);
    }

    #[test]
    fn what_the_text_cannot_say_is_refused() {
        let (program, line) = (program(), mesh("mesh line { tp = 2 }"));
        let told = |build: &dyn Fn(&mut PlacementBuilder<'_>)| {
            let mut builder = Placement::builder("q", &program, &line);
            build(&mut builder);
            builder.finish().expect_err("a mistake").to_string()
        };
        assert!(
            told(&|b| {
                b.place("x", "s/tp\n  y: t/tp");
            })
            .contains("is not one layout")
        );
        assert!(
            told(&|b| {
                b.place("x y", "s/tp");
            })
            .contains("`x y` is not a name")
        );
        assert!(
            told(&|b| {
                b.place("z", "s/tp");
            })
            .contains("no value `z`")
        );
        let other = mesh("mesh line { tp = 3 }");
        assert!(
            told(&|b| {
                b.mesh(&other);
            })
            .contains("two different meshes have the name `line`")
        );
        let one = Layout::parse("s/tp", &["s"], &line).expect("a layout");
        assert!(
            told(&|b| {
                b.place_at("x", &one);
            })
            .contains("of a value with 1 dims, but it has 2")
        );
    }
}
