# A formula for a tap, of the prebuilt static binaries: `contrib/recipes FOLDER URL` puts version, addresses and checksums of a release in.
class Netcaliper < Formula
  desc "Measuring instrument for networks"
  homepage "@HOME@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@URL@/netcaliper-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256_x86_64@"
  end
  on_arm do
    url "@URL@/netcaliper-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256_aarch64@"
  end

  def install
    bin.install "netcaliper"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/netcaliper.bash" => "netcaliper"
    zsh_completion.install "completions/_netcaliper"
    fish_completion.install "completions/netcaliper.fish"
    prefix.install "THIRD-PARTY-LICENSES"
  end

  test do
    ENV["NETCALIPER_STORE"] = "off"
    system bin/"netcaliper", "demo", "-t", "500ms"
  end
end
