; The installer for Windows, made by contrib/windows/build. Needed: -DFOLDER=, the files; -DVERSION=; -DOUT=, the installer's name.
;
; Silently: netcaliper-VERSION-setup.exe /S [/D=C:\folder]. It needs an administrator's rights, and starts nothing.
; The program is for 64 bits; so is its installer.
Target amd64-unicode
!include "MUI2.nsh"
!include "StrFunc.nsh"
${Using:StrFunc} StrStr
${Using:StrFunc} UnStrRep

!define KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\netcaliper"
!define ENVIRONMENT "SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
; Longer ones cannot be read whole by NSIS (1,024 characters): such a PATH is left alone.
!define LONGEST_PATH 900

Name "netcaliper ${VERSION}"
OutFile "${OUT}"
InstallDir "$PROGRAMFILES64\netcaliper"
InstallDirRegKey HKLM "${KEY}" "InstallLocation"
RequestExecutionLevel admin
SetCompressor /SOLID lzma

!insertmacro MUI_PAGE_LICENSE "${FOLDER}/LICENSE-MIT"
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"

Section "netcaliper" program
    SectionIn RO
    SetRegView 64
    SetOutPath "$INSTDIR"
    File "${FOLDER}/netcaliper.exe"
    File "${FOLDER}/README.md"
    File "${FOLDER}/CHANGELOG.md"
    File "${FOLDER}/LICENSE-APACHE"
    File "${FOLDER}/LICENSE-MIT"
    File "${FOLDER}/THIRD-PARTY-LICENSES"
    File "${FOLDER}/completions/netcaliper.ps1"
    WriteUninstaller "$INSTDIR\uninstall.exe"
    WriteRegStr HKLM "${KEY}" "DisplayName" "netcaliper"
    WriteRegStr HKLM "${KEY}" "DisplayVersion" "${VERSION}"
    WriteRegStr HKLM "${KEY}" "InstallLocation" "$INSTDIR"
    WriteRegStr HKLM "${KEY}" "UninstallString" '"$INSTDIR\uninstall.exe"'
    WriteRegStr HKLM "${KEY}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
    WriteRegDWORD HKLM "${KEY}" "NoModify" 1
    WriteRegDWORD HKLM "${KEY}" "NoRepair" 1
SectionEnd

Section "Found by name in every console (PATH)" path
    SetRegView 64
    ClearErrors
    ReadRegStr $0 HKLM "${ENVIRONMENT}" "Path"
    IfErrors long
    StrLen $1 $0
    IntCmp $1 ${LONGEST_PATH} 0 0 long
    ${StrStr} $2 "$0;" ";$INSTDIR;"
    StrCmp $2 "" 0 done
    WriteRegExpandStr HKLM "${ENVIRONMENT}" "Path" "$0;$INSTDIR"
    SendMessage ${HWND_BROADCAST} ${WM_SETTINGCHANGE} 0 "STR:Environment" /TIMEOUT=5000
    Goto done
long:
    DetailPrint "PATH is too long to be changed here: add $INSTDIR by hand"
done:
SectionEnd

; Not chosen unless asked for: only a server needs it.
Section /o "Let others measure to this host (firewall rule)" firewall
    nsExec::ExecToLog 'netsh advfirewall firewall add rule name="netcaliper" dir=in action=allow program="$INSTDIR\netcaliper.exe" enable=yes'
SectionEnd

Section "Uninstall"
    SetRegView 64
    nsExec::ExecToLog 'netsh advfirewall firewall delete rule name="netcaliper"'
    ClearErrors
    ReadRegStr $0 HKLM "${ENVIRONMENT}" "Path"
    IfErrors kept
    StrLen $1 $0
    IntCmp $1 1000 0 0 kept
    ${UnStrRep} $1 $0 ";$INSTDIR" ""
    StrCmp $0 $1 kept
    WriteRegExpandStr HKLM "${ENVIRONMENT}" "Path" $1
    SendMessage ${HWND_BROADCAST} ${WM_SETTINGCHANGE} 0 "STR:Environment" /TIMEOUT=5000
kept:
    Delete "$INSTDIR\netcaliper.exe"
    Delete "$INSTDIR\README.md"
    Delete "$INSTDIR\CHANGELOG.md"
    Delete "$INSTDIR\LICENSE-APACHE"
    Delete "$INSTDIR\LICENSE-MIT"
    Delete "$INSTDIR\THIRD-PARTY-LICENSES"
    Delete "$INSTDIR\netcaliper.ps1"
    Delete "$INSTDIR\uninstall.exe"
    RMDir "$INSTDIR"
    DeleteRegKey HKLM "${KEY}"
SectionEnd
