//! What is written where: results to stdout, messages to stderr; with `--json` stdout holds only JSON.

mod diagnostic;
mod json;
mod output;
mod report;
mod run;
mod table;
mod timeline;

pub use diagnostic::Source;
pub use json::explanation as explanation_json;
pub use output::{result, unparsed};
pub use report::explanation as explanation_text;
pub use run::{CheckReport, OutputReport, RunReport, Times, Told};
pub use table::{Column, bytes, table};
pub use timeline::{Over, Timeline};
