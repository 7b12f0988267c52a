//! How the devices spent a run that was traced: one row a device, then their mean.

use super::table::{Column, table};
use serde_json::{Value, json};
use shardweave_compiler::id::Id;
use shardweave_runtime::execute::Spent;
use std::time::Duration;

/// More devices than this do not fit on a screen: only their mean is told.
const MOST_ROWS: usize = 16;

/// How the devices spent the run that was traced: the last one.
#[derive(Debug)]
pub struct Timeline {
    /// How long it took.
    pub run: Duration,
    /// In the order of the devices.
    pub devices: Vec<Spent>,
    /// What communication went over.
    pub over: Over,
}

/// What devices communicate over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The memory that they share.
    Memory,
    /// A link that is played.
    SimulatedLink,
}

/// Durations of one device, or of several together.
#[derive(Clone, Copy, Default)]
struct Row {
    run: Duration,
    computing: Duration,
    communicating: Duration,
    hidden: Duration,
    waiting: Duration,
}

impl Timeline {
    /// The field `timeline` of `run --json`.
    pub fn json(&self) -> Value {
        let device = |spent: &Spent| {
            json!({
                "device": spent.device.index(),
                "computing_ms": milliseconds(spent.computing),
                "communicating_ms": milliseconds(spent.communicating),
                "hidden_ms": milliseconds(spent.hidden),
                "waiting_ms": milliseconds(spent.waiting),
            })
        };
        json!({
            "run_ms": milliseconds(self.run),
            "simulated_link": self.over == Over::SimulatedLink,
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
        })
    }

    /// What `run` prints.
    pub fn text(&self) -> String {
        let columns = [
            Column::Text("device"),
            Column::Number("computing"),
            Column::Number(match self.over {
                Over::Memory => "communicating",
                Over::SimulatedLink => "communicating (simulated link)",
            }),
            Column::Number("of it hidden"),
            Column::Number("waiting"),
        ];
        let rows: Vec<Row> = self.devices.iter().map(|spent| self.row(spent)).collect();
        let mean = ("mean".to_owned(), sum(&rows), rows.len());
        let named =
            self.devices.iter().zip(&rows).map(|(spent, &row)| (spent.device.index().to_string(), row, 1));
        let shown = if rows.len() > MOST_ROWS { 0 } else { rows.len() };
        let cells = named.take(shown).chain([mean]).map(|(name, row, devices)| {
            let of = |time: Duration, whole: Duration| share(time, whole, devices);
            let [computing, communicating, waiting] =
                [row.computing, row.communicating, row.waiting].map(|time| of(time, row.run));
            [name, computing, communicating, of(row.hidden, row.communicating), waiting]
        });
        format!(
            "{}\nthe traced run took {:.3} ms; hidden is what a device communicated while it computed\n",
            table(columns, cells),
            milliseconds(self.run)
        )
    }

    fn row(&self, spent: &Spent) -> Row {
        let Spent { device: _, computing, communicating, hidden, waiting } = *spent;
        Row { run: self.run, computing, communicating, hidden, waiting }
    }
}

fn sum(rows: &[Row]) -> Row {
    rows.iter().fold(Row::default(), |sum, row| Row {
        run: sum.run + row.run,
        computing: sum.computing + row.computing,
        communicating: sum.communicating + row.communicating,
        hidden: sum.hidden + row.hidden,
        waiting: sum.waiting + row.waiting,
    })
}

/// `1.250 ms  25%`: the mean of so many devices, and how much of the whole it is.
fn share(time: Duration, whole: Duration, devices: usize) -> String {
    let percent = if whole.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / whole.as_secs_f64() };
    format!("{:.3} ms {percent:>3.0}%", milliseconds(time) / devices as f64)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardweave_compiler::mesh::DeviceId;

    fn timeline(devices: usize) -> Timeline {
        let spent = |device| Spent {
            device: DeviceId::new(device),
            computing: Duration::from_micros(500),
            communicating: Duration::from_micros(400),
            hidden: Duration::from_micros(if device == 0 { 100 } else { 300 }),
            waiting: Duration::from_micros(if device == 0 { 200 } else { 400 }),
        };
        let devices = (0..devices).map(spent).collect();
        Timeline { run: Duration::from_millis(1), devices, over: Over::SimulatedLink }
    }

    fn lines(devices: usize) -> Vec<String> {
        let told = anstream::adapter::strip_str(&timeline(devices).text()).to_string();
        told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn each_device_has_a_row_and_hidden_is_a_share_of_the_communication() {
        let lines = lines(2);
        assert_eq!(lines[0], "device computing communicating (simulated link) of it hidden waiting");
        assert_eq!(lines[2], "0 0.500 ms 50% 0.400 ms 40% 0.100 ms 25% 0.200 ms 20%");
        assert_eq!(lines[3], "1 0.500 ms 50% 0.400 ms 40% 0.300 ms 75% 0.400 ms 40%");
        assert_eq!(lines[4], "mean 0.500 ms 50% 0.400 ms 40% 0.200 ms 50% 0.300 ms 30%");
    }

    #[test]
    fn many_devices_are_one_row() {
        assert!(lines(MOST_ROWS + 1)[2].starts_with("mean"));
        assert_eq!(lines(MOST_ROWS).iter().filter(|line| line.contains('%')).count(), MOST_ROWS + 1);
    }
}
