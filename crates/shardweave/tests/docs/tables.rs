//! The tables of the language reference that are printed from the compiler's own.

use shardweave::compiler::cost::Cost;
use shardweave::compiler::op::table::{DTypes, OpRow, ResultDType, TABLE};
use shardweave::compiler::op::usage;
use shardweave::{Code, DType};

/// The table of that name.
pub fn table(name: &str) -> Result<String, String> {
    match name {
        "operations" => Ok(operations()),
        "codes" => Ok(codes()),
        "cost" => Ok(cost()),
        _ => Err(format!("there is no table `{name}`")),
    }
}

fn operations() -> String {
    let rows = TABLE.iter().map(|row| {
        let signature = row.signature.replace("->", "→");
        format!(
            "| `{}` | {} | {} | {} | {} |\n",
            usage(row),
            code(&signature),
            dtypes(row),
            result(row),
            row.doc
        )
    });
    let head = "| operation | dims | types | result | meaning |\n|---|---|---|---|---|\n";
    head.to_string() + &rows.collect::<String>()
}

fn code(text: &str) -> String {
    if text == "pattern" { "as the pattern says".into() } else { format!("`{}`", text.trim()) }
}

fn dtypes(row: &OpRow) -> &'static str {
    match row.dtypes {
        DTypes::None => "",
        DTypes::Any => "any",
        DTypes::Floats => "floats",
        DTypes::Numbers => "floats, integers",
        DTypes::Bools => "`bool`",
        DTypes::Condition => "`bool`, then any",
        DTypes::Ids => "integers, then any",
    }
}

fn result(row: &OpRow) -> &'static str {
    match row.result {
        ResultDType::Operands => "the same",
        ResultDType::Bool => "`bool`",
        ResultDType::I64 => "`i64`",
        ResultDType::Written => "as written",
    }
}

fn codes() -> String {
    let rows = Code::TABLE.iter().map(|row| format!("| {} | {} |\n", row.name, row.about));
    "| code | meaning |\n|---|---|\n".to_string() + &rows.collect::<String>()
}

fn cost() -> String {
    let Cost { flops_per_us, latency_us, bytes_per_us } = Cost::default();
    format!(
        "| constant | value |\n|---|---|\n| F | {} GFLOP/s a device |\n| latency | {latency_us} us a message |\n| B | {} GB/s a link |\n",
        flops_per_us / 1e3,
        bytes_per_us / 1e3
    )
}

/// The words that are lists elsewhere in the reference.
#[test]
fn every_dtype_and_reserved_word_is_named() {
    let text = std::fs::read_to_string(crate::root().join("docs/language.md")).expect("the reference");
    let dtypes = DType::ALL.map(DType::name);
    for word in dtypes.into_iter().chain(shardweave::compiler::text::RESERVED) {
        assert!(text.contains(&format!("`{word}`")), "docs/language.md does not name `{word}`");
    }
}

/// Every kind has a row in the reference and a section with a picture.
#[test]
fn every_kind_of_collective_is_shown() {
    let read = |name: &str| std::fs::read_to_string(crate::root().join(name)).expect("a document");
    let (language, pictures) = (read("docs/language.md"), read("docs/collectives.md"));
    for kind in shardweave::compiler::instr::Kind::ALL.into_iter().filter(|kind| kind.communicates()) {
        let name = kind.name();
        assert!(language.contains(&format!("\n| `{name}` | ")), "docs/language.md has no row for {name}");
        assert!(pictures.contains(&format!("\n## {name}\n")), "docs/collectives.md has no section {name}");
        assert!(pictures.contains(&format!("\n{name} ")), "docs/collectives.md shows no {name}");
    }
}
