//! A mesh as text: `mesh order { tp = 4 } devices [1, 0, 3, 2]`.

use super::Mesh;
use crate::id::Id;
use std::fmt;

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes().values().map(|a| format!("{} = {}", a.name, a.size)).collect();
        match &axes[..] {
            [] => write!(f, "mesh {} {{ }}", self.name())?,
            axes => write!(f, "mesh {} {{ {} }}", self.name(), axes.join(", "))?,
        }
        if let Some(devices) = self.listed_devices() {
            let ids: Vec<String> = devices.iter().map(|d| d.index().to_string()).collect();
            write!(f, " devices [{}]", ids.join(", "))?;
        }
        Ok(())
    }
}
