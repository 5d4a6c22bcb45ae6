//! Every scenario with the decapsulator in the kernel, at both of its hooks; the second time with the balancer's program in generic mode.

mod xdp {
    use guideway_testbed::end::{Ended, XdpDecapsulator};
    use guideway_testbed::soft::SoftForwarder;

    guideway_testbed::scenarios!(Ended<SoftForwarder, XdpDecapsulator>);
}

mod tc {
    use guideway_testbed::kernel::GenericForwarder;

    guideway_testbed::scenarios!(GenericForwarder);
}
