//! stripe.
