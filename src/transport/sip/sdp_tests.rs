//! Offers of phones and of nobody.

use super::*;
