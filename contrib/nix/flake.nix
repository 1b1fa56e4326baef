# From source: `nix build 'git+file:.?dir=contrib/nix'` in a checkout. nixpkgs has to have the compiler of rust-toolchain.toml or a newer one.
{
  description = "netcaliper, a measuring instrument for networks";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      root = ../..;
      manifest = builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"));
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "netcaliper";
          version = manifest.workspace.package.version;
          src = root;
          cargoLock.lockFile = root + "/Cargo.lock";
          buildType = "dist";
          buildFeatures = [ "full" ];
          NETCALIPER_COMMIT = self.rev or "";
          # The tests need namespaces, other programs and an hour; `.ci/run` runs them.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            $out/bin/netcaliper man man
            installManPage man/*.1
            installShellCompletion --cmd netcaliper \
              --bash <($out/bin/netcaliper completions bash) \
              --zsh <($out/bin/netcaliper completions zsh) \
              --fish <($out/bin/netcaliper completions fish)
          '';
          meta = {
            description = "Measuring instrument for networks";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "netcaliper";
            platforms = systems;
          };
        };
      });
      checks = each (pkgs: {
        demo = pkgs.runCommand "netcaliper-demo" { } ''
          NETCALIPER_STORE=off ${self.packages.${pkgs.system}.default}/bin/netcaliper demo -t 500ms
          touch $out
        '';
      });
    };
}
