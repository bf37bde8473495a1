//! Sound in time, in both directions.

use super::*;
