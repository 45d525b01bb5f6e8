#!/usr/bin/env python3
"""Writes the tables of device names that are part of the program.

usage: scripts/make_pci_names.py PCI_IDS > data/pci_names.txt
       scripts/make_pci_names.py --amdgpu AMDGPU_IDS > data/amdgpu_names.txt

PCI_IDS is pci.ids of the PCI ID Project (https://pci-ids.ucw.cz/; Debian: /usr/share/misc/pci.ids). AMDGPU_IDS is data/amdgpu.ids of libdrm
(https://gitlab.freedesktop.org/mesa/drm; Debian: /usr/share/libdrm/amdgpu.ids), which names AMD's products by device and revision; in pci.ids, several
products share one line. The tables are kept in the repository, so that a build is the same everywhere. Run this script again to update them.
"""
import re
import sys

# Names of devices that are neither GPUs nor accelerators. Berth only looks up devices whose PCI class is suitable, so a surplus line does
# no harm except for its size.
NOT_A_DEVICE = re.compile(
    r"audio|sound|modem|usb|ucsi|bridge|smbus|\bide\b|sata|ahci|raid|ethernet|network|nvme|ssd|storage|firewire"
    r"|memory (controller|hub)|host (controller|interface)|root (port|complex)|pci-?e? |\bisa\b|\blpc\b|nforce|mcp\d+ "
    r"|southbridge|northbridge|hda|i2c|spi |uart|gpio|nvswitch|bluefield|switch|dma|iommu|data fabric|dummy|hdmi|serial"
    r"|management|chipset|hub|\bagp\b|tv tuner|theater|tuner|wireless|wi-?fi|soc |thermal|processor to|\beth",
    re.IGNORECASE)
INTEL_DEVICE = re.compile(
    r"graphics|\barc\b|\biris\b|\bgpu\b|data center gpu|ponte vecchio|battlemage|lunar lake.*npu|\bnpu\b|neural|\bvpu\b"
    r"|\bdg[12]\b|\bgt\d", re.IGNORECASE)
# A device of these vendors is an accelerator if NOT_A_DEVICE does not match its name, and EXACT has no other pattern for the vendor
# (docs/devices.md).
ACCELERATORS = {
    "1ae0", "1d0f", "1d94", "1d95", "1da3", "1de0", "1e36", "1e3e", "1e52", "1e60", "1ed2", "1ed5", "9999", "cabc",
}
EXACT = {
    "17cb": re.compile(r"cloud ai", re.IGNORECASE),
    "1022": re.compile(r"\b(npu|ipu|neural)\b", re.IGNORECASE),
    "1d22": re.compile(r"kunlun", re.IGNORECASE),
    "1d0f": re.compile(r"neuron", re.IGNORECASE),
    "1d94": re.compile(r"k100|dcu", re.IGNORECASE),
    "1ae0": re.compile(r"tpu", re.IGNORECASE),
}


def wanted(vendor, name):
    if vendor in EXACT:
        return EXACT[vendor].search(name) is not None
    if vendor == "8086":
        return INTEL_DEVICE.search(name) is not None and not NOT_A_DEVICE.search(name)
    if vendor in {"10de", "1002"} | ACCELERATORS:
        return NOT_A_DEVICE.search(name) is None
    return False


def for_people(vendor, name):
    """The name for people. In the name of a GPU, the product is in brackets after the chip: "AD102 [GeForce RTX 4090]"."""
    sold_as = re.search(r"\[([^\[\]]+)\]\s*$", name)
    if vendor in {"10de", "1002", "8086"} and sold_as:
        name = sold_as.group(1)
    return " ".join(name.split())


def amdgpu_table(path):
    """Prints the table for AMD. Its lines are "DDDD00RR name", with device id and revision. (Lines of the other table begin with vendor and device.)"""
    lines = {}
    for line in open(path, encoding="utf-8"):
        match = re.match(r"([0-9A-Fa-f]{4}),\s*([0-9A-Fa-f]{2}),\s*(\S.*)", line)
        if match:
            device, revision, name = match.groups()
            lines[f"{device.lower()}00{revision.lower()}"] = " ".join(name.removeprefix("AMD ").split())
    print("# Made by scripts/make_pci_names.py from data/amdgpu.ids of libdrm (https://gitlab.freedesktop.org/mesa/drm), as of 2025-12;")
    print("# MIT licence: data/pci_names.LICENSE")
    print("\n".join(f"{key} {name}" for key, name in sorted(lines.items())))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--amdgpu":
        amdgpu_table(sys.argv[2])
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    version, vendor, lines = "unknown", "", []
    for line in open(sys.argv[1], encoding="utf-8"):
        if line.startswith("#"):
            match = re.match(r"#\s+Version:\s*(\S+)", line)
            version = match.group(1) if match else version
        elif line.startswith("C "):
            break
        elif re.match(r"[0-9a-f]{4}  ", line):
            vendor = line[:4]
        elif re.match(r"\t[0-9a-f]{4}  ", line):
            device, name = line[1:5], line[7:].strip()
            if wanted(vendor, name):
                lines.append(f"{vendor}{device} {for_people(vendor, name)}")
    print(f"# Made by scripts/make_pci_names.py from pci.ids {version} of the PCI ID Project (https://pci-ids.ucw.cz/);")
    print("# copyright Martin Mares and Albert Pool; used under the 3-clause BSD licence: data/pci_names.LICENSE")
    print("\n".join(sorted(lines)))


if __name__ == "__main__":
    main()
