//! The gate through its public words: the reference's fixtures, its rules one by one, fairness.

#[path = "admission_gate/claims.rs"]
mod claims;
#[path = "admission_gate/desk.rs"]
mod desk;
#[path = "admission_gate/oracle.rs"]
mod oracle;
#[path = "admission_gate/pressure.rs"]
mod pressure;
#[path = "admission_gate/reference.rs"]
mod reference;
#[path = "admission_gate/rules.rs"]
mod rules;
#[path = "admission_gate/shares.rs"]
mod shares;
