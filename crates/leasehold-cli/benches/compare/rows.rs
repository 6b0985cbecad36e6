//! What was measured, in the order in which it was measured first.

use serde_json::{Value, json};

/// A row for each thing, with one value for each time that it was measured.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    /// How much could not be measured.
    pub(crate) failed: u8,
}

#[derive(Debug)]
struct Row {
    store: &'static str,
    case: String,
    metric: String,
    values: Vec<f64>,
}

impl Rows {
    pub(crate) fn add(&mut self, store: &'static str, case: &str, metric: &str, value: f64) {
        eprintln!("  {store:<9} {case}: {value:.3} {metric}");
        let known =
            self.rows.iter_mut().find(|row| (row.store, &*row.case, &*row.metric) == (store, case, metric));
        match known {
            Some(row) => row.values.push(value),
            None => self.rows.push(Row {
                store,
                case: case.to_owned(),
                metric: metric.to_owned(),
                values: vec![value],
            }),
        }
    }

    /// Something could not be measured.
    pub(crate) fn fail(&mut self, said: &str) {
        eprintln!("  {}", said.trim());
        self.failed = self.failed.saturating_add(1);
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| json!({"store": row.store, "case": row.case, "metric": row.metric, "values": row.values});
        json!({ "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
