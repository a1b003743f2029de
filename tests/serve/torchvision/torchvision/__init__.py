"""Stand-in for torchvision in tests of the MONAI Label server, which imports two names of it and does not use them."""
