//! The reference store keeps the contract.

#[path = "support/memory_harness.rs"]
mod memory_harness;

leasehold::conformance!(memory_harness::Memory);
