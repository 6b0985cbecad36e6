//! What was measured, in the order in which it was measured first.

use serde_json::{Value, json};

/// A row for each thing, with one value for each time that it was measured.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Row>);

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
            self.0.iter_mut().find(|row| (row.store, &*row.case, &*row.metric) == (store, case, metric));
        match known {
            Some(row) => row.values.push(value),
            None => self.0.push(Row {
                store,
                case: case.to_owned(),
                metric: metric.to_owned(),
                values: vec![value],
            }),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| json!({"store": row.store, "case": row.case, "metric": row.metric, "values": row.values});
        json!({ "rows": self.0.iter().map(row).collect::<Vec<_>>() })
    }
}
